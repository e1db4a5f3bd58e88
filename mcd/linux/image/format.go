package image

import (
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/internal/distribution"
)

// fragment is a file of the daemon's own in /etc/default/grub.d, which Debian's grub-mkconfig sources with sh after
// /etc/default/grub and after all files whose names come earlier. fragment appends to GRUB_CMDLINE_LINUX_DEFAULT, whose
// arguments come last on the command line of a normal boot, so that they override the machine's own arguments. Recovery
// entries of the boot menu do not have these arguments.
//
// Sources: https://www.gnu.org/software/grub/manual/grub/html_node/Simple-configuration.html, and the scripts
// /usr/sbin/grub-mkconfig and /etc/grub.d/10_linux of the package grub-common 2.06-13+deb12u2.
type fragment struct{}

const (
	fragmentHead = "# Bunsen's machine-config-daemon writes this file: the kernelArguments of the node's config.\n"
	fragmentSet  = `GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT `
)

func (fragment) args(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	line, ok := strings.CutPrefix(text, fragmentHead)
	if !ok {
		return nil, errForeign
	}
	return assigned(line, fragmentSet)
}

func (fragment) with(_ string, args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	return fragmentHead + assignment(fragmentSet, args), nil
}

// block is a marked part of the grub.cfg of Flatcar's OEM partition, which Flatcar's GRUB sources at each boot. The
// arguments in linux_append come last on the command line.
//
// Sources: https://www.flatcar.org/docs/latest/setup/customization/other-settings/#adding-custom-kernel-boot-options,
// and build_library/grub.cfg of https://github.com/flatcar/scripts.
type block struct{}

// The first line of the block says how the file was before, so that the file can be restored: it had a last line
// without an end, it did not exist, or neither.
const (
	blockBegin   = "# BEGIN Bunsen: the kernelArguments of the node's config"
	blockUnended = ", after a line without an end"
	blockNew     = ", in a new file"
	blockSet     = `set linux_append="$linux_append `
	blockEnd     = "# END Bunsen\n"
)

// parts are the parts of a file with a block: the lines above and below the block, the end of the block's first line,
// and the assignment in the block.
type parts struct{ above, kind, set, below string }

// split returns the parts of a file. If the file has no block, set is "".
func (block) split(text string) (p parts, err error) {
	above, rest, ok := strings.Cut(text, blockBegin)
	if !ok {
		return parts{above: text}, nil
	}
	p.above = above
	p.kind, rest, _ = strings.Cut(rest, "\n")
	p.set, p.below, ok = strings.Cut(rest, blockEnd)
	known := p.kind == "" || p.kind == blockNew && above == "" || p.kind == blockUnended && above != ""
	if !ok || p.set == "" || !known || above != "" && !strings.HasSuffix(above, "\n") {
		return parts{}, errForeign
	}
	return p, nil
}

func (b block) args(text string) ([]string, error) {
	p, err := b.split(text)
	if err != nil || p.set == "" {
		return nil, err
	}
	return assigned(p.set, blockSet)
}

func (b block) with(text string, args []string) (string, error) {
	p, err := b.split(text)
	if err != nil {
		return "", err
	}
	switch {
	case len(args) == 0 && p.kind == blockUnended && p.below == "":
		return strings.TrimSuffix(p.above, "\n"), nil
	case len(args) == 0:
		return p.above + p.below, nil
	case p.set == "" && text == "":
		p.kind = blockNew
	case p.set == "" && !strings.HasSuffix(text, "\n"):
		p.above, p.kind = text+"\n", blockUnended
	}
	return p.above + blockBegin + p.kind + "\n" + assignment(blockSet, args) + blockEnd + p.below, nil
}

// assignment returns the line that sets the arguments. The arguments are plain, so sh and GRUB do not interpret them.
func assignment(set string, args []string) string { return set + strings.Join(args, " ") + "\"\n" }

// assigned is the inverse of assignment.
func assigned(line, set string) ([]string, error) {
	words, ok := strings.CutPrefix(line, set)
	words, closed := strings.CutSuffix(words, "\"\n")
	args := strings.Split(words, " ")
	if !ok || !closed || slices.ContainsFunc(args, func(a string) bool { return !distribution.PlainArgument(a) }) {
		return nil, errForeign
	}
	return args, nil
}
