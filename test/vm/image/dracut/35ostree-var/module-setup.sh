#!/bin/bash
# Makes the deployment's /var what Ignition writes to: on an OSTree host it is a folder beside the deployments.

check() { return 255; }

depends() { echo systemd ostree; }

install() {
    inst_multiple mount umount mkdir
    inst_simple "$moddir/ostree-var.service" "$systemdsystemunitdir/ostree-var.service"
    mkdir -p "$initdir/$systemdsystemunitdir/ignition-complete.target.requires"
    ln_r "$systemdsystemunitdir/ostree-var.service" "$systemdsystemunitdir/ignition-complete.target.requires/ostree-var.service"
}
