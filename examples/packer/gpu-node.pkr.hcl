# An image for EC2 nodes with eight B300. The builder has no GPU: a cheap instance with a fast network will do, with a
# volume that holds the checkpoint. `packer init . && packer build -var source_ami=ami-… .`

packer {
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = ">= 1.3.0"
    }
  }
}

variable "profile" {
  type    = string
  default = "kimi-k3.1-pro"
}

variable "source_ami" {
  type        = string
  description = "Debian 12 or Ubuntu 24.04 with the NVIDIA driver and the engine in it"
}

variable "hf_token" {
  type      = string
  default   = ""
  sensitive = true
}

variable "volume_gib" {
  type    = number
  default = 2000
}

source "amazon-ebs" "gpu_node" {
  ami_name      = "kboot-${var.profile}-{{timestamp}}"
  instance_type = "c7i.8xlarge"
  source_ami    = var.source_ami
  ssh_username  = "admin"

  launch_block_device_mappings {
    device_name           = "/dev/xvda"
    volume_size           = var.volume_gib
    volume_type           = "gp3"
    throughput            = 1000
    iops                  = 16000
    delete_on_termination = true
  }
}

build {
  sources = ["source.amazon-ebs.gpu_node"]

  # The folder must be there before files are put into it.
  provisioner "shell" {
    inline = ["mkdir -p /tmp/kboot"]
  }

  provisioner "file" {
    source      = "${path.root}/../../"
    destination = "/tmp/kboot"
  }

  # What belongs to kboot, and which profile the nodes boot.
  provisioner "shell" {
    execute_command = "sudo -n sh -eu -c '{{ .Vars }} {{ .Path }}'"
    inline = [
      "sh -c 'cd /tmp/kboot && ./install.sh'",
      "sed -i 's/^profile = \"\"/profile = \"${var.profile}\"/' /etc/kboot/kboot.toml",
    ]
  }

  # Bytes, caches, units, manifest. The token is in this step's environment only: it comes in a file that Packer removes,
  # since a command line is seen by everybody and written down by sudo.
  provisioner "shell" {
    use_env_var_file = true
    execute_command  = "sudo -n sh -eu -c '. {{ .EnvVarFile }}; {{ .Path }}'"
    environment_vars = ["HF_TOKEN=${var.hf_token}"]
    inline           = ["kboot bake --profile ${var.profile} --gpu B300 --gpus 8"]
  }

  # The last step: nothing of the builder goes out. Packer's own key stays until the instance is gone; the first boot's
  # cloud-init writes the node's.
  provisioner "shell" {
    execute_command = "sudo -n sh -eu -c '{{ .Vars }} {{ .Path }}'"
    inline = [
      "rm -rf /tmp/kboot",
      "kboot bake --finish --this-machine --remove-login-keys",
    ]
  }
}
