package linux

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/nodepath"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/machine"
)

const (
	// recordPath has the images that the daemon pinned, so that it unpins no other images.
	recordPath = host.StateDir + "/pinned-images.json"
	// label and value pin an image in containerd.
	label, value = "io.cri-containerd.pinned", "pinned"
	crioUnit     = "crio.service"
)

// record says which images the daemon pins.
type record struct {
	// Images are pinned, or may be if Done is false.
	Images []string `json:"images"`
	// CRIO is true if CRI-O pins them.
	CRIO bool `json:"crio,omitempty"`
	// Done is true if the runtime has the pins.
	Done bool `json:"done"`
}

// Pin implements images.Runtime. A crash between two steps repeats the steps.
func (r *Runtime) Pin(ctx context.Context, images []string) error {
	defer r.Lock()()
	was, err := r.record()
	if err != nil {
		return err
	}
	current, err := r.Root.Read(nodepath.PinnedImages)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(images)+len(was.Images)+len(current) == 0 && was.Done {
		return nil // The machine may have no runtime.
	}
	at, err := r.endpoint()
	if err != nil {
		return err
	}
	is := record{Images: images, CRIO: at.crio, Done: true}
	same := bytes.Equal(current, dropIn(is))
	if same && was.equals(is) {
		return nil
	}
	maybe := slices.Compact(slices.Sorted(slices.Values(slices.Concat(was.Images, images))))
	if err := r.save(ctx, record{Images: maybe, CRIO: at.crio}); err != nil {
		return err
	}
	if !same {
		if err := r.writeDropIn(ctx, dropIn(is)); err != nil {
			return err
		}
	}
	if err := r.activate(ctx, at, was, images); err != nil {
		return err
	}
	return r.save(ctx, is)
}

// forget records, before a pinned image is pulled again, that the runtime may not have its pin: containerd loses the
// label with the image. So the next Pin pins it, also after a crash.
func (r *Runtime) forget(ctx context.Context, image string) error {
	defer r.Lock()()
	was, err := r.record()
	if err != nil || !was.Done || !slices.Contains(was.Images, image) {
		return err
	}
	was.Done = false
	return r.save(ctx, was)
}

// activate makes the runtime read its pins.
func (r *Runtime) activate(ctx context.Context, at endpoint, was record, images []string) error {
	if at.crio {
		return r.Units.Reload(ctx, crioUnit)
	}
	return r.setLabels(ctx, at, was, images)
}

// equals reports whether both records are done and pin the same images in the same runtime.
func (is record) equals(other record) bool {
	return is.Done == other.Done && is.CRIO == other.CRIO && slices.Equal(is.Images, other.Images)
}

// record reads the record; one that is done and has no images if there is none. A damaged record counts as not done.
func (r *Runtime) record() (record, error) {
	text, err := r.Root.Read(recordPath)
	if errors.Is(err, fs.ErrNotExist) {
		return record{Done: true}, nil
	}
	if err != nil {
		return record{}, err
	}
	var is record
	if json.Unmarshal(text, &is) != nil {
		return record{}, nil
	}
	return is, nil
}

// save writes the record, or removes it if no image is pinned.
func (r *Runtime) save(ctx context.Context, is record) error {
	if len(is.Images) == 0 && is.Done {
		if err := r.Root.Remove(recordPath); err != nil {
			return err
		}
		return r.Root.Flush(ctx)
	}
	text, err := json.Marshal(is)
	if err != nil {
		return err
	}
	if !machine.Exists(r.Root, host.StateDir) {
		if err := r.Root.Mkdir(host.StateDir, host.Entry{Kind: host.Dir, Mode: 0o700}); err != nil {
			return err
		}
	}
	if err := r.Root.Write(recordPath, host.Entry{Kind: host.File, Mode: 0o600}, text); err != nil {
		return err
	}
	return r.Root.Flush(ctx)
}

// dropIn returns the file of CRI-O that pins images; nil for no images, and for containerd. Package images has checked
// the names, so they need no quoting.
func dropIn(is record) []byte {
	if !is.CRIO || len(is.Images) == 0 {
		return nil
	}
	return []byte("[crio]\n  [crio.image]\n    pinned_images = [\"" + strings.Join(is.Images, "\", \"") + "\"]\n")
}

// writeDropIn replaces the file of CRI-O, or removes it.
func (r *Runtime) writeDropIn(ctx context.Context, contents []byte) error {
	if contents == nil {
		if err := r.Root.Remove(nodepath.PinnedImages); err != nil {
			return err
		}
		return r.Root.Flush(ctx)
	}
	dir := path.Dir(nodepath.PinnedImages)
	for _, d := range []string{path.Dir(dir), dir} {
		if !machine.Exists(r.Root, d) {
			if err := r.Root.Mkdir(d, host.Entry{Kind: host.Dir, Mode: 0o755}); err != nil {
				return err
			}
		}
	}
	if err := r.Root.Write(nodepath.PinnedImages, host.Entry{Kind: host.File, Mode: 0o644}, contents); err != nil {
		return err
	}
	return r.Root.Flush(ctx)
}

// setLabels pins images in containerd, and unpins those that only the record has. Without ctr, images are pulled and
// not pinned.
func (r *Runtime) setLabels(ctx context.Context, at endpoint, was record, images []string) error {
	ctr := r.program("ctr")
	if ctr.Path == "" {
		return nil
	}
	set := func(image, to string) error {
		_, err := ctr.Run(ctx, machine.LookLimit, "--address", at.socket, "--namespace", "k8s.io", "images", "label",
			image, label+"="+to)
		return err
	}
	for _, image := range images {
		if was.Done && was.CRIO == at.crio && slices.Contains(was.Images, image) {
			continue
		}
		if err := set(image, value); err != nil {
			return fmt.Errorf("labelling %s: %w", image, err)
		}
	}
	for _, image := range was.Images {
		if slices.Contains(images, image) {
			continue
		}
		err := set(image, "")
		var failed *machine.Failure
		// The image may be gone.
		if err != nil && !(errors.As(err, &failed) && strings.Contains(failed.Said, "not found")) {
			return fmt.Errorf("removing the label of %s: %w", image, err)
		}
	}
	return nil
}
