"""Where do a builder's secrets, identities and traces lie in a tree? Tables only; paths without a leading slash."""

from __future__ import annotations

import re

TOKENS = (".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".huggingface/token")
"""Hub tokens, below a home."""

CREDENTIALS = (
    ".aws/cli/cache",
    ".aws/credentials",
    ".aws/sso/cache",
    ".azure",
    ".boto",
    ".config/containers/auth.json",
    ".config/gcloud",
    ".config/gh/hosts.yml",
    ".config/git/credentials",
    ".git-credentials",
    ".netrc",
    ".pypirc",
    ".s3cfg",
    "_netrc",
)
"""What other programs log in with, below a home."""

DOCKER = ".docker/config.json"

HISTORIES = (
    ".ash_history",
    ".bash_history",
    ".lesshst",
    ".local/share/fish/fish_history",
    ".node_repl_history",
    ".python_history",
    ".sh_history",
    ".sqlite_history",
    ".viminfo",
    ".wget-hsts",
    ".zsh_history",
    ".zhistory",
)
"""What a person typed, below a home."""

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
)
HOME_ENVIRONMENT_FOLDERS = (".config/environment.d",)

ENVIRONMENTS = ("etc/bash.bashrc", "etc/environment", "etc/kboot/env", "etc/profile", "etc/zsh/zshenv")
ENVIRONMENT_FOLDERS = (
    "etc/default",
    "etc/environment.d",
    "etc/profile.d",
    "etc/sysconfig",
    "etc/systemd/system",
    "etc/systemd/system.conf.d",
)
"""Files that set variables for everybody or for services."""

SEEDS = (
    "boot/efi/loader/random-seed",
    "boot/loader/random-seed",
    "efi/loader/random-seed",
    "var/lib/systemd/credential.secret",
    "var/lib/systemd/random-seed",
)
"""Secrets of one machine that its copies must not share (https://systemd.io/BUILDING_IMAGES)."""

MACHINE_ID = "etc/machine-id"
DBUS_MACHINE_ID = "var/lib/dbus/machine-id"
HOST_KEY = re.compile(r"ssh_host_\w+_key(?:\.pub)?")
JOURNAL = "var/log/journal"

LOGS = ("var/log", "var/lib/cloud")
"""Below these a file that holds a secret is emptied."""

SCRATCH = ("tmp", "var/tmp")
"""Below these it is removed."""

TEXTS = ("etc", "opt/kboot", "root", "srv")
"""Below these, homes and kboot's own folders it is looked for as well, and is a person's to take away."""

PASSED_BY = frozenset(
    {
        *(".cache", ".cargo", ".git", ".m2", ".npm", ".nvm", ".pyenv", ".rustup", "__pycache__", "dist-packages"),
        *("node_modules", "proc", "site-packages", "sys"),
    }
)
"""Folders of other people's code and of package managers, which hold examples of tokens, and of no files at all."""

STATES = (".local/state/kboot",)
RUNTIMES = (".cache/kboot",)
"""kboot's own folders of users other than root, below a home."""

NO_TEXTS = (
    *(".a", ".bin", ".gguf", ".gz", ".o", ".png", ".pt", ".pth", ".pyc", ".safetensors", ".so", ".tar", ".whl", ".xz"),
    *(".zip", ".zst"),
)

SECRET_VARIABLES = re.compile(
    rb"""\b(HF_TOKEN|HUGGING_FACE_HUB_TOKEN|HUGGINGFACE_TOKEN|AWS_SECRET_ACCESS_KEY|AWS_SESSION_TOKEN"""
    rb"""|AZURE_CLIENT_SECRET|NGC_API_KEY|NVIDIA_API_KEY|WANDB_API_KEY|GITHUB_TOKEN|GH_TOKEN|GITLAB_TOKEN)"""
    rb"""(\s*=\s*["']?)([^\s"'$#;]+)"""
)
"""An assignment of a secret: name, what stands between, value. A value that is another variable is none."""

TOKEN_TEXT = re.compile(rb"\bhf_[A-Za-z0-9]{16,}(?![A-Za-z0-9])")
"""What a Hub token looks like, wherever it stands."""

PRIVATE_KEY = b"PRIVATE KEY-----"
