package image

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/machine"
)

// deployment has the needed fields of one deployment in `rpm-ostree status --json`.
type deployment struct {
	// Booted is true for the running deployment.
	Booted bool `json:"booted"`
	// Reference is the reference of the container image; "" if the deployment has another source.
	Reference string `json:"container-image-reference"`
	// CustomOrigin is the source of the image on early releases.
	CustomOrigin []string `json:"custom-origin"`
	// Origin is the OSTree ref of a deployment that was not created from a container.
	Origin string `json:"origin"`
	// Checksum is the commit. BaseChecksum is the commit below the added packages.
	Checksum     string `json:"checksum"`
	BaseChecksum string `json:"base-checksum"`
	// Serial tells deployments of one commit apart.
	Serial int `json:"serial"`
	// Packages are the requested packages.
	Packages []string `json:"requested-packages"`
	// Removals are the removed packages of the image.
	Removals []string `json:"requested-base-removals"`
	// LocalPackages and Replacements are packages that a user added.
	LocalPackages []string `json:"requested-local-packages"`
	Replacements  []string `json:"requested-base-local-replacements"`

	// at is the index of the deployment in the list.
	at int
	// kargs are the kernel arguments of the deployment, without those of the boot loader.
	kargs string
}

// ostreeImage is the prefix of the Image of deployments that were not created from a container. A ref, an @ and the
// commit follow the prefix.
const ostreeImage = "ostree://"

// image returns the pull spec.
func (d deployment) image() string {
	if d.Reference != "" {
		return imageOf(d.Reference)
	}
	if len(d.CustomOrigin) > 0 {
		if spec, ok := strings.CutPrefix(d.CustomOrigin[0], "pivot://"); ok {
			return spec
		}
	}
	if d.Origin == "" {
		return ""
	}
	return ostreeImage + d.Origin + "@" + d.base()
}

// imageOf returns the pull spec of an OSTree container reference, such as ostree-unverified-registry:<spec>, in the
// form of machineconfig.PulledImage. If the image does not come from a registry, the spec includes the transport and a
// colon.
func imageOf(reference string) string { return machineconfig.PulledImage(withoutScheme(reference)) }

// withoutScheme returns the pull spec as it stands in a reference.
func withoutScheme(reference string) string {
	kind, rest, ok := strings.Cut(reference, ":")
	if !ok {
		return reference
	}
	switch kind {
	case "ostree-unverified-registry":
		return rest
	case "ostree-remote-registry":
		_, spec, _ := strings.Cut(rest, ":")
		return spec
	case "ostree-remote-image":
		_, rest, _ = strings.Cut(rest, ":")
	case "ostree-unverified-image", "ostree-image-signed":
	default:
		return reference
	}
	for _, registry := range []string{"docker://", "registry:"} {
		if spec, ok := strings.CutPrefix(rest, registry); ok {
			return spec
		}
	}
	return rest
}

// base returns the commit below all added packages.
func (d deployment) base() string { return cmp.Or(d.BaseChecksum, d.Checksum) }

// os converts the deployment to a host.OS.
func (d deployment) os(is release) host.OS {
	o := host.OS{Image: d.image(), Kargs: d.kargs, KernelType: "default"}
	if is.enterprise {
		o.KernelType, o.Extensions = kernelTypeOf(d.Packages), extensionsOf(d.Packages)
	}
	return o
}

// layered reports whether packages of the deployment were added, removed or replaced.
func (d deployment) layered() bool {
	return len(d.Packages)+len(d.Removals)+len(d.LocalPackages)+len(d.Replacements) > 0
}

// foreignPackages returns the package changes of users that no config requires, as text.
func (d deployment) foreignPackages() string {
	foreign := func(list []string) []string {
		return slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(list), isManaged)))
	}
	return fmt.Sprint(foreign(d.Packages), foreign(d.Removals), foreign(d.LocalPackages), foreign(d.Replacements))
}

// isManaged reports whether a package belongs to a kernel type or an extension.
func isManaged(p string) bool {
	for _, table := range []map[string][]string{kernels, extensions} {
		for _, parts := range table {
			if slices.Contains(parts, p) {
				return true
			}
		}
	}
	return false
}

// deployments has the running deployment and the deployment of the next boot, which may be the same.
type deployments struct {
	all          []deployment
	booted, next deployment
	// busy is true while a transaction is under way.
	busy bool
}

// parseDeployments parses the list. The first deployment of the list is that of the next boot.
func parseDeployments(text []byte) (deployments, error) {
	var s struct {
		Deployments []deployment    `json:"deployments"`
		Transaction json.RawMessage `json:"transaction"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return deployments{}, fmt.Errorf("reading the status of rpm-ostree: %w", err)
	}
	for i := range s.Deployments {
		s.Deployments[i].at = i
	}
	running := slices.IndexFunc(s.Deployments, func(d deployment) bool { return d.Booted })
	if running < 0 {
		return deployments{}, errors.New("rpm-ostree lists no deployment as the one that runs")
	}
	return deployments{
		all: s.Deployments, booted: s.Deployments[running], next: s.Deployments[0],
		busy: len(s.Transaction) > 0 && string(s.Transaction) != "null",
	}, nil
}

// deployments reads the deployments, and the kernel arguments of those deployments that the status needs.
func (o *RPMOSTree) deployments(ctx context.Context) (deployments, error) {
	text, err := o.rpm.Run(ctx, machine.LookLimit, "status", "--json")
	if err != nil {
		return deployments{}, err
	}
	d, err := parseDeployments(text)
	if err != nil {
		return deployments{}, err
	}
	if d.booted.kargs, err = o.kargsOf(ctx, d.booted.at); err != nil {
		return deployments{}, err
	}
	if d.next.at == d.booted.at {
		d.next = d.booted
		return d, nil
	}
	d.next.kargs, err = o.kargsOf(ctx, d.next.at)
	return d, err
}

// kargsOf reads the kernel arguments of one deployment. Early releases of rpm-ostree print a title before the
// arguments.
func (o *RPMOSTree) kargsOf(ctx context.Context, at int) (string, error) {
	text, err := o.rpm.Run(ctx, machine.LookLimit, "kargs", "--deploy-index="+strconv.Itoa(at))
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return machine.OwnKargs(lines[len(lines)-1]), nil
}

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

// referenceTo returns the reference with which a tool fetches an image.
func referenceTo(image string) string {
	if transport, _ := transportOf(image); transport != "" {
		return "ostree-unverified-image:" + image
	}
	return "ostree-unverified-registry:" + image
}
