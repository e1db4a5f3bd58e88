package linux

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// deployment is what `rpm-ostree status --json` tells of one, as far as it matters.
type deployment struct {
	// Booted is what runs.
	Booted bool `json:"booted"`
	// Reference of the container image; "" for one that comes from elsewhere.
	Reference string `json:"container-image-reference"`
	// CustomOrigin is, on early releases, where the image was taken from.
	CustomOrigin []string `json:"custom-origin"`
	// Origin is the OSTree ref of one that was made of no container.
	Origin string `json:"origin"`
	// Checksum of the commit, and BaseChecksum of the one below packages that were added.
	Checksum     string `json:"checksum"`
	BaseChecksum string `json:"base-checksum"`
	// Packages that were asked for.
	Packages []string `json:"requested-packages"`
	// Removals of packages of the image.
	Removals []string `json:"requested-base-removals"`
	// LocalPackages and Replacements that a person brought.
	LocalPackages []string `json:"requested-local-packages"`
	Replacements  []string `json:"requested-base-local-replacements"`

	// at is its place in the list.
	at int
	// kargs are its kernel arguments, without those of the boot loader.
	kargs string
}

// ostreeImage begins the Image of deployments that were made of no container: a ref, an @ and the commit.
const ostreeImage = "ostree://"

// image is the pull spec.
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

// base is the commit below all packages that were added.
func (d deployment) base() string { return cmp.Or(d.BaseChecksum, d.Checksum) }

// os is the deployment as the port has it.
func (d deployment) os(is release) host.OS {
	o := host.OS{Image: d.image(), Kargs: d.kargs, KernelType: "default"}
	if is.enterprise {
		o.KernelType, o.Extensions = kernelTypeOf(d.Packages), extensionsOf(d.Packages)
	}
	return o
}

// layered tells deployments with packages added, taken out or replaced.
func (d deployment) layered() bool {
	return len(d.Packages)+len(d.Removals)+len(d.LocalPackages)+len(d.Replacements) > 0
}

// theirs is what people did to a deployment past any config, as text.
func (d deployment) theirs() string {
	foreign := func(list []string) []string {
		return slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(list), ours)))
	}
	return fmt.Sprint(foreign(d.Packages), foreign(d.Removals), foreign(d.LocalPackages), foreign(d.Replacements))
}

// deployments are what there is: what runs, and what the next boot will have, which may be the same.
type deployments struct {
	all          []deployment
	booted, next deployment
	// busy: somebody's transaction is under way.
	busy bool
}

// parseDeployments reads the list. The first is what the next boot will have.
func parseDeployments(text []byte) (deployments, error) {
	var s struct {
		Deployments []deployment    `json:"deployments"`
		Transaction json.RawMessage `json:"transaction"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return deployments{}, fmt.Errorf("reading what rpm-ostree tells: %w", err)
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

// look asks for the deployments and for the kernel arguments of those that matter.
func (o *RPMOSTree) look(ctx context.Context) (deployments, error) {
	text, err := o.rpm.run(ctx, looking, "status", "--json")
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

// kargsOf asks for the kernel arguments of one deployment. Early releases print a title before them.
func (o *RPMOSTree) kargsOf(ctx context.Context, at int) (string, error) {
	text, err := o.rpm.run(ctx, looking, "kargs", "--deploy-index="+strconv.Itoa(at))
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return ownKargs(lines[len(lines)-1]), nil
}
