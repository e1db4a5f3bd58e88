package images

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunsen-os/bunsen/api/pinnedimage"
)

const (
	// maxImages is how many images a machine pins. More images would not fit on it.
	maxImages = 5000
	// maxFailures is how many pulls may fail before an attempt ends. A registry that is away fails each pull.
	maxFailures = 3
	// maxReserve limits the part of the disk that stays free, which is a tenth, as for downloads.
	maxReserve = 1 << 30
)

// Runtime is the container runtime of a machine.
type Runtime interface {
	// Present returns which of the images the machine has.
	Present(ctx context.Context, images []string) (map[string]bool, error)
	// Space returns the free bytes and the size of the file system with the images.
	Space() (free, total int64, err error)
	// Pull pulls one image. It uses the credentials that the runtime has.
	Pull(ctx context.Context, image string) error
	// Pin pins images, and unpins those that an earlier call pinned. A machine without a runtime and without pinned
	// images can unpin. A repeated call changes nothing.
	Pin(ctx context.Context, images []string) error
}

// Bring pulls the images that a machine lacks, one at a time, and pins those that it has. If an image cannot be pulled,
// Bring pulls and pins the others, and returns why. The error is that of the context if the context ends.
func Bring(ctx context.Context, r Runtime, images []string) error {
	if err := check(images); err != nil {
		return err
	}
	if len(images) == 0 {
		return r.Pin(ctx, nil)
	}
	has, err := r.Present(ctx, images)
	if err != nil {
		return err
	}
	if has == nil {
		has = map[string]bool{}
	}
	var failed []error
	for _, image := range images {
		if has[image] {
			continue
		}
		err := pull(ctx, r, image)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		has[image] = err == nil
		var full *fullError
		if failed = appendError(failed, err); len(failed) >= maxFailures || errors.As(err, &full) {
			break
		}
	}
	var pinned []string
	for _, image := range images {
		if has[image] {
			pinned = append(pinned, image)
		}
	}
	if err := r.Pin(ctx, pinned); err != nil {
		failed = append(failed, fmt.Errorf("pinning images: %w", err))
	}
	return errors.Join(failed...)
}

func appendError(all []error, err error) []error {
	if err == nil {
		return all
	}
	return append(all, err)
}

// pull pulls one image if the disk has room.
func pull(ctx context.Context, r Runtime, image string) error {
	free, total, err := r.Space()
	if err != nil {
		return fmt.Errorf("pulling %s: reading the free space: %w", image, err)
	}
	if free < min(total/10, maxReserve) {
		return &fullError{image, free, total}
	}
	if err := r.Pull(ctx, image); err != nil {
		return fmt.Errorf("pulling %s: %w", image, err)
	}
	return nil
}

// fullError is the error for a disk without room for images.
type fullError struct {
	image       string
	free, total int64
}

// Error names the image and the free space.
func (e *fullError) Error() string {
	return fmt.Sprintf("pulling %s: the disk of the images is full: %d MiB of %d MiB are free, and a tenth or 1 GiB "+
		"stays free. Remove files from the node, or images from its PinnedImageSets",
		e.image, e.free>>20, e.total>>20)
}

// check refuses names that are no images. The API server checks them too, but the daemon runs programs with them as
// root.
func check(images []string) error {
	if len(images) > maxImages {
		return fmt.Errorf("the PinnedImageSets of the pool name %d images, and a node pins at most %d: remove some",
			len(images), maxImages)
	}
	for _, image := range images {
		if problem := pinnedimage.Problem(image); problem != "" {
			return fmt.Errorf("image %q: %s", image, problem)
		}
	}
	return nil
}
