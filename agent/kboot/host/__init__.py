"""The only package that touches this machine: files, sysfs, procfs, processes, NVML, systemd."""
