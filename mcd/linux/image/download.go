package image

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/machine"
)

// Download implements host.ImageDownloader. With the option --download-only, rpm-ostree stores an image in its
// repository and creates no deployment. A later rebase then finds the layers there. Download does not use bootc, whose
// option --download-only stages a locked deployment: bootc switch has it since 2026, bootc upgrade a little longer.
func (o *RPMOSTree) Download(ctx context.Context, image string) error {
	if err := isImage(image); err != nil {
		return err
	}
	d, err := o.waitIdle(ctx)
	switch {
	case err != nil:
		return err
	case slices.ContainsFunc(d.all, func(e deployment) bool { return e.image() == image }):
		return nil
	case o.usesBootc(d, image):
		return fmt.Errorf("downloading an image before it is staged: %w: on this machine bootc stages images",
			host.ErrUnsupported)
	}
	args := []string{"rebase", "--download-only"}
	if ref, ok := strings.CutPrefix(image, ostreeImage); ok {
		ref, commit, _ := strings.Cut(ref, "@")
		args = append(args, ref, commit)
	} else {
		args = append(args, "--experimental", d.referenceTo(image))
	}
	_, err = o.rpm.Run(ctx, machine.StageLimit, args...)
	return err
}

// referenceTo returns the reference with which rpm-ostree fetches an image. If a deployment has a reference to the
// image, it is that reference, so that the verification stays the same.
func (d deployments) referenceTo(image string) string {
	if known := slices.IndexFunc(d.all, func(e deployment) bool {
		return e.Reference != "" && e.image() == image
	}); known >= 0 {
		return d.all[known].Reference
	}
	return referenceTo(image)
}
