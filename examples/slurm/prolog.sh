#!/bin/bash
# A Prolog of slurm.conf: runs as root on each node before a job starts there, and keeps the job waiting until the node
# has the checkpoint, proven. A prolog that fails drains the node, so only what makes the node useless fails here.
set -euo pipefail
export PATH=/opt/kboot/env/bin:/usr/sbin:/usr/bin:/sbin:/bin

profile_file=/etc/kboot/profile-of-partition/${SLURM_JOB_PARTITION:-none}
[ -r "$profile_file" ] || exit 0 # jobs of other partitions need no checkpoint
profile=$(head -n 1 "$profile_file")

# 4: the node cannot serve: drain it. 3: warnings, which are told and keep nobody from working.
status=0
kboot doctor --profile "$profile" --json >"/run/kboot-prolog-doctor.json" || status=$?
if [ "$status" -eq 4 ]; then
    logger -t kboot-prolog "job ${SLURM_JOB_ID:-?}: kboot doctor found a failure, see /run/kboot-prolog-doctor.json"
    exit 1
fi

# The Hub may be away and the job may still want the node: it is told, and the job's own boot tries again.
kboot fetch --profile "$profile" || logger -t kboot-prolog "job ${SLURM_JOB_ID:-?}: kboot fetch ended with status $?"
exit 0
