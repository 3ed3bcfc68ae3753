"""Where do a builder's secrets, identities and traces lie in a tree? Tables only; paths without a leading slash."""

from __future__ import annotations

import re

TOKENS = (".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".huggingface/token")
"""Hub tokens, below a home."""

CREDENTIALS = (
    ".ICEauthority",
    ".Xauthority",
    ".aliyun/config.json",
    ".aws/cli/cache",
    ".aws/credentials",
    ".aws/login",
    ".aws/sso/cache",
    ".azure",
    ".bluemix/config.json",
    ".boto",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".composer/auth.json",
    ".config/aliyun",
    ".config/composer/auth.json",
    ".config/configstore",
    ".config/containers/auth.json",
    ".config/doctl",
    ".config/gcloud",
    ".config/gh/hosts.yml",
    ".config/git/credentials",
    ".config/glab-cli",
    ".config/hub",
    ".config/linode-cli",
    ".config/ngc",
    ".config/oci",
    ".config/op",
    ".config/openstack/clouds.yaml",
    ".config/openstack/secure.yaml",
    ".config/rclone/rclone.conf",
    ".config/sops/age",
    ".config/vastai",
    ".databrickscfg",
    ".dockercfg",
    ".gem/credentials",
    ".git-credentials",
    ".gnupg/private-keys-v1.d",
    ".gnupg/secring.gpg",
    ".kaggle/kaggle.json",
    ".kube/cache",
    ".kube/config",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".mc/config.json",
    ".modal.toml",
    ".my.cnf",
    ".mylogin.cnf",
    ".netrc",
    ".ngc/config",
    ".oci",
    ".passwd-s3fs",
    ".password-store",
    ".pgpass",
    ".pulumi/credentials.json",
    ".pypirc",
    ".runpod/config.toml",
    ".s3cfg",
    ".smbcredentials",
    ".terraform.d/credentials.tfrc.json",
    ".vast_api_key",
    ".vault-token",
    "_netrc",
)
"""What other programs log in with, below a home."""

MACHINE_CREDENTIALS = (
    "etc/apt/auth.conf",
    "etc/apt/auth.conf.d",
    "etc/cifs-credentials",
    "etc/credstore",
    "etc/credstore.encrypted",
    "etc/kubernetes/admin.conf",
    "etc/kubernetes/kubelet.conf",
    "etc/kubernetes/pki",
    "etc/munge/munge.key",
    "etc/netrc",
    "etc/passwd-s3fs",
    "etc/rancher/k3s/k3s.yaml",
    "etc/samba/credentials",
    "var/lib/amazon/ssm/Vault",
    "var/lib/kubelet/config.json",
    "var/lib/kubelet/pki",
    "var/lib/rancher/k3s/server/token",
    "var/lib/samba/private",
    "var/lib/tailscale/tailscaled.state",
)
"""The same for the machine. Folders go with all below them."""

DOCKER = ".docker/config.json"

HISTORY = re.compile(
    r"\.(?:\w+[_-]?)?(?:history|hist|histfile)(?:[-_.]\w+)?|\.lesshst|\.viminfo|\.wget-hsts|\.zsh_sessions|\.recently-used"
)
"""Names in a home that say what was typed, whatever the shell."""

HISTORIES = (
    ".config/nushell/history.sqlite3",
    ".config/nushell/history.txt",
    ".ipython/profile_default/history.sqlite",
    ".local/share/fish/fish_history",
    ".local/share/nano/search_history",
    ".local/share/powershell/PSReadLine",
    ".local/share/xonsh",
    ".local/state/bash/history",
    ".local/state/less/history",
    ".local/state/zsh/history",
)
"""The same below a home."""

TRACES = (".ssh/known_hosts", ".ssh/known_hosts.old")
"""With whom a person talked, below a home. The machine's own list, /etc/ssh/ssh_known_hosts, is a setting and stays."""

LOGIN_KEYS = (".ssh/authorized_keys", ".ssh/authorized_keys2")

HOME_ENVIRONMENTS = (
    ".bash_login",
    ".bash_profile",
    ".bashrc",
    ".env",
    ".pam_environment",
    ".profile",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    ".config/fish/config.fish",
    ".config/systemd/user.conf",
    ".cshrc",
    ".tcshrc",
)
HOME_ENVIRONMENT_FOLDERS = (".config/environment.d", ".config/systemd/user")

ENVIRONMENTS = (
    "etc/bash.bashrc",
    "etc/csh.cshrc",
    "etc/environment",
    "etc/fish/config.fish",
    "etc/kboot/env",
    "etc/profile",
    "etc/security/pam_env.conf",
    "etc/zsh/zshenv",
    "etc/zsh/zshrc",
)
ENVIRONMENT_FOLDERS = (
    "etc/default",
    "etc/environment.d",
    "etc/profile.d",
    "etc/sysconfig",
    "etc/systemd/system",
    "etc/systemd/system.conf.d",
    "etc/systemd/user",
    "etc/systemd/user.conf.d",
)
"""Files that set variables for everybody or for services."""

URL_LOGINS = (
    ".bunfig.toml",
    ".condarc",
    ".config/pip/pip.conf",
    ".config/uv/uv.toml",
    ".gitconfig",
    ".config/git/config",
    ".npmrc",
    ".pip/pip.conf",
    ".yarnrc.yml",
)
"""Settings of package managers below a home, in which a login may stand: in a URL, or as a value."""

MACHINE_URL_LOGINS = ("etc/apt/sources.list", "etc/gitconfig", "etc/npmrc", "etc/pip.conf", "etc/uv/uv.toml")
MACHINE_URL_LOGIN_FOLDERS = ("etc/apt/apt.conf.d", "etc/apt/sources.list.d", "etc/xdg/pip")

NETWORK_FOLDERS = (
    "etc/NetworkManager/system-connections",
    "etc/iwd",
    "etc/netplan",
    "etc/systemd/network",
    "etc/wireguard",
    "etc/wpa_supplicant",
    "var/lib/iwd",
)
"""Settings of networks, in which a password may stand."""

SEEDS = (
    "boot/efi/loader/random-seed",
    "boot/loader/random-seed",
    "efi/loader/random-seed",
    "etc/iscsi/initiatorname.iscsi",
    "etc/krb5.keytab",
    "etc/nvme/hostid",
    "etc/nvme/hostnqn",
    "var/lib/NetworkManager/secret_key",
    "var/lib/amazon/ssm/registration",
    "var/lib/systemd/credential.secret",
    "var/lib/systemd/random-seed",
    "var/lib/urandom/random-seed",
)
"""Secrets of one machine that its copies must not share (https://systemd.io/BUILDING_IMAGES)."""

MACHINE_ID = "etc/machine-id"
DBUS_MACHINE_ID = "var/lib/dbus/machine-id"
HOST_KEY = re.compile(r"ssh_host_\w+_key(?:\.pub)?")
LEASES = ("var/lib/dhcp", "var/lib/dhclient", "var/lib/dhcpcd", "var/lib/NetworkManager")
LEASE = re.compile(r".*\.leases?(?:6)?|NetworkManager-intern\.conf|timestamps|seen-bssids")
"""What a network told this machine: folders, and names in them."""

CLOUD_STATES = (
    "run/cloud-init",
    *(f"var/lib/cloud/{name}" for name in ("data", "handlers", "instance", "instances", "sem")),
    "var/lib/waagent",
)
"""What cloud-init and agents of clouds learnt of this instance, its user data among it (`cloud-init clean`)."""

TOLD = {
    "etc/cloud/cloud-init.disabled": "cloud-init is off: a node takes no settings of its cloud",
    "etc/cloud/cloud.cfg.d/99-installer.cfg": "an installer's: with it nodes ignore their user data, and it may "
    "hold the hash of a password",
    "etc/hostname": "the name of one machine, unless all nodes shall have it",
    "etc/lvm/devices/system.devices": "LVM uses the disks it names only, and those of a node have other ids",
    "etc/machine-info": "it may name one machine",
    "etc/multipath/wwids": "ids of the disks of one machine",
    "etc/resolv.conf": "name servers of one network, unless they are those of the nodes",
    "etc/udev/rules.d/70-persistent-net.rules": "names of network cards by the addresses of one machine's",
    "var/lib/cloud/seed": "every node takes its first settings from it",
}
"""What is somebody's decision, and is told."""

LOGINS = ("var/log/btmp", "var/log/lastlog", "var/log/wtmp")
JOURNAL = "var/log/journal"

LOGS = ("var/log",)
"""Below these a file that holds a secret is emptied, and one that was put aside (compressed, or numbered) removed."""

OLD_LOG = re.compile(r".+\.(?:bz2|gz|xz|zst|old|\d+)")

SCRATCH = ("run", "tmp", "var/crash", "var/spool", "var/tmp")
"""Below these it is removed."""

PASSED_BY = {
    "dev": "",
    "proc": "",
    "sys": "",
    **dict.fromkeys(
        (
            *("bin", "boot", "lib", "lib32", "lib64", "libx32", "sbin", "usr"),
            *("var/cache/apt", "var/cache/debconf", "var/lib/apt", "var/lib/dpkg"),
        ),
        "files of the distribution (/usr, /boot …), but for this builder's own secrets",
    ),
    **dict.fromkeys(
        (
            *("nix/store", "snap", "var/lib/containerd", "var/lib/containers", "var/lib/docker", "var/lib/flatpak"),
            "var/lib/snapd",
        ),
        "images of containers and bundles, but for this builder's own secrets",
    ),
}
"""Folders whose files are not the builder's, and why they are passed by; no reason: there is nothing in an image."""

LOOKED_INTO = ("usr/local", "usr/src")
"""Folders in those that may be."""

CODE = frozenset(
    {
        *(".cargo", ".m2", ".npm", ".nvm", ".pyenv", ".rustup", "__pycache__", "dist-packages", "node_modules"),
        *("site-packages", "testdata"),
    }
)
"""Names of folders of other people's code, which holds examples of tokens."""

CACHED = frozenset({"conda", "pip", "pre-commit", "uv", "yarn"})
"""The same, below ~/.cache."""

STATES = (".local/state/kboot",)
RUNTIMES = (".cache/kboot",)
"""kboot's own folders of users other than root, below a home."""

NO_TEXTS = (
    *(".7z", ".a", ".bin", ".br", ".gguf", ".gif", ".jar", ".jpg", ".lz4", ".mp4", ".o", ".onnx", ".png", ".pt"),
    *(".pth", ".pyc", ".safetensors", ".so", ".webp", ".whl", ".zip"),
)
"""Ends of names of files that are no text, or packed in a way that is not undone here."""

TOKEN_NAMES = (
    *("ANTHROPIC_API_KEY", "ARM_CLIENT_SECRET", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_CLIENT_SECRET"),
    *("CI_JOB_TOKEN", "CLOUDFLARE_API_TOKEN", "COMET_API_KEY", "DIGITALOCEAN_ACCESS_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"),
    *("GITLAB_TOKEN", "HF_API_TOKEN", "HF_TOKEN", "HUGGINGFACE_TOKEN", "HUGGING_FACE_HUB_TOKEN", "LAMBDA_API_KEY"),
    *("MISTRAL_API_KEY", "NGC_API_KEY", "NPM_TOKEN", "NVIDIA_API_KEY", "OPENAI_API_KEY", "REPLICATE_API_TOKEN"),
    *("SLACK_TOKEN", "UV_PUBLISH_TOKEN", "VAULT_TOKEN", "WANDB_API_KEY"),
)
"""Variables of tokens and keys: what the builder's have is looked for in every text."""

PASSWORD_NAMES = ("DOCKER_PASSWORD", "MYSQL_PWD", "PGPASSWORD", "RCLONE_CONFIG_PASS", "TWINE_PASSWORD")
"""The same of passwords, which may be ordinary words: no text is searched for them."""

SECRET_VARIABLES = re.compile(
    rb"\b(" + "|".join((*TOKEN_NAMES, *PASSWORD_NAMES)).encode() + rb""")(\s*=\s*["']?)([^\s"'$#;]+)"""
)
"""An assignment of a secret: name, what stands between, value. A value that is another variable is none."""

SECRET_SETTINGS = re.compile(
    rb"""\b(_authToken|_auth|_password|password|npmAuthToken|npmAuthIdent|psk|sae_password|wep-key\d|wep_key\d"""
    rb"""|leap-password|private-key-password|private_key_passwd|Passphrase|PreSharedKey"""
    rb"""|(?:PrivateKey|PresharedKey|private-key|preshared-key)(?=[ \t]*=[ \t]*[A-Za-z0-9+/]{43}=))"""
    rb"""([ \t]*[=:][ \t]*["']?)([^\s"'$#;]+)"""
)
"""The same in settings of package managers and of networks."""

URL_LOGIN = re.compile(rb"(\b[a-z][a-z0-9+.-]{1,20}://)([^\s/:@\"'$]*:[^\s/@\"'$]+|[A-Za-z0-9_-]{16,})@")
"""A URL with a name and a password before its host, or with a token."""

PRIVATE_KEY = b"PRIVATE KEY-----"
