package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/nodepath"
	"github.com/bunsen-os/bunsen/internal/distribution"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/linux/files"
	"github.com/bunsen-os/bunsen/mcd/linux/machine"
)

const (
	// grubConfig is the path of the file that update-grub generates.
	grubConfig = "/boot/grub/grub.cfg"
	// grubDir is the directory of files that grub-mkconfig reads after /etc/default/grub.
	grubDir = "/etc/default/grub.d"
)

// oemConfigs are the possible paths of Flatcar's grub.cfg, that of the newest release first.
var oemConfigs = []string{"/oem/grub.cfg", "/usr/share/oem/grub.cfg"}

// DetectBootLoader returns the machine's OS with its boot loader, by the machine's row in the table of distributions.
// For a machine without a known boot loader, Detect returns nil. The parameter dir is the mount point of the machine's
// root.
func DetectBootLoader(root *files.Root, dir string) host.OperatingSystem {
	release := machine.Release(root)
	system, _ := distribution.SystemOf(release["ID"], release["VARIANT_ID"])
	file := &BootLoaderFile{
		root: root, running: machine.RunningKargs,
		name: cmp.Or(release["PRETTY_NAME"], system.Name),
	}
	switch system.KernelArguments.Method {
	case distribution.UpdateGrub:
		file.path, file.format = nodepath.GrubArguments, fragment{}
		file.generate = machine.FindProgram(root, dir, system.KernelArguments.Name)
		if file.generate.Path == "" || !machine.Exists(root, grubConfig) {
			return nil
		}
		return file
	case distribution.OEMGrub:
		file.format = block{}
		for _, at := range oemConfigs {
			if file.path = at; machine.Exists(root, path.Dir(at)) {
				return file
			}
		}
	}
	return nil
}

// BootLoaderFile is an OS whose kernel arguments are in a file that the boot loader, or the generator of its config,
// reads. The daemon adds its arguments at the end and never changes other arguments.
type BootLoaderFile struct {
	root *files.Root
	// path of the file, and its format.
	path   string
	format format
	// generate is the program that makes the boot loader's config from the file; its path is empty if the boot loader
	// reads the file itself.
	generate machine.Program
	// running returns the arguments of the running kernel.
	running func() (string, error)
	// name of the OS for users.
	name string
}

// format reads and writes the arguments of the daemon in a file.
type format interface {
	// args returns the arguments of the daemon. If the file has none, args returns none.
	args(text string) ([]string, error)
	// with returns the file with other arguments of the daemon; "" for no file.
	with(text string, args []string) (string, error)
}

// errForeign means that another program or a user has changed lines that the daemon wrote.
var errForeign = errors.New("a line of Bunsen's part was changed by others: remove this part, and the daemon writes " +
	"it anew")

// Status implements host.OperatingSystem.
func (o *BootLoaderFile) Status(context.Context) (host.OSStatus, error) {
	v, err := o.read()
	if err != nil {
		return host.OSStatus{}, err
	}
	booted := host.OS{Kargs: v.running, KernelType: "default"}
	next := booted
	next.Kargs = host.JoinArgs(slices.Concat(v.own, v.added))
	return host.OSStatus{Booted: booted, Next: next, Support: o.support(host.JoinArgs(v.own))}, nil
}

func (o *BootLoaderFile) support(own string) host.Support {
	return host.Support{
		Kargs: true, PlainKargs: true, OwnKargs: own,
		Why: fmt.Sprintf("it is %s, of which the daemon changes only kernel arguments, and no image, kernel type or "+
			"extensions", o.name),
	}
}

// BootSpace implements host.BootChecker. Both the boot loader's config and the file of the arguments are written anew
// beside the present one.
func (o *BootLoaderFile) BootSpace(steps []host.Step) (s host.BootSpace) {
	at := o.path
	if o.generate.Path != "" {
		at = grubConfig
	}
	if !slices.ContainsFunc(steps, host.Step.Stages) {
		return s
	}
	_, free, err := o.root.Volume(path.Dir(at))
	size, sizeErr := o.root.Size(at)
	if err != nil || sizeErr != nil {
		return s // Stage reports a directory that cannot be read, and creates a file that does not exist.
	}
	return host.BootSpace{At: path.Dir(at), Free: free, Least: size + 1}
}

// BootFiles implements host.BootWriter.
func (o *BootLoaderFile) BootFiles(steps []host.Step) (files []host.Step) {
	if !slices.ContainsFunc(steps, host.Step.Stages) {
		return nil
	}
	written := []string{o.path}
	if o.generate.Path != "" {
		written = append(written, grubConfig)
	}
	for _, at := range written {
		is, err := o.root.Stat(at)
		if err != nil {
			continue // Status reports the error.
		}
		then := is
		then.Kind, then.Digest = host.File, "" // The contents are not known yet, and their size is that of BootSpace.
		files = append(files, host.Step{
			Verb: host.Write, Target: at, Before: host.Value{Entry: is}, After: host.Value{Entry: then},
		})
	}
	return files
}

// Stage implements host.OperatingSystem. Stage always generates the boot loader's config, because an earlier process
// may have died before it generated the config.
func (o *BootLoaderFile) Stage(ctx context.Context, step host.Step) error {
	v, err := o.read()
	if err != nil {
		return err
	}
	own := host.JoinArgs(v.own)
	if step.Verb != host.SetKargs {
		return fmt.Errorf("%s: %w: %s", step.Verb, host.ErrUnsupported, o.support(own).Why)
	}
	added, ok := host.AddedArgs(own, step)
	if !ok {
		return fmt.Errorf("%s: the machine's own kernel arguments have changed to %q since the update was planned",
			step.Verb, own)
	}
	managed := append(host.SplitArgs(step.Before.Word), host.SplitArgs(step.After.Word)...)
	kept := slices.DeleteFunc(slices.Clone(v.added), func(a string) bool { return slices.Contains(managed, a) })
	want := append(kept, added...)
	for _, a := range want {
		if !distribution.PlainArgument(a) {
			return fmt.Errorf("%s: %w: %q has characters that files of GRUB cannot hold", step.Verb,
				host.ErrUnsupported, a)
		}
	}
	if err := o.write(v, want); err != nil {
		return err
	}
	if o.generate.Path == "" {
		return nil
	}
	if _, err := o.generate.Run(ctx, machine.StageLimit); err != nil {
		return err
	}
	return o.verify(v, want)
}

// write records the arguments with which the machine booted, and writes the file. write does not write a file that
// already has the wanted content.
func (o *BootLoaderFile) write(v view, want []string) error {
	text, err := o.format.with(v.text, want)
	if err != nil || text == v.text {
		return err
	}
	if !v.recorded {
		if err := o.root.Write(nodepath.BootedArguments, host.Entry{Mode: 0o600},
			[]byte(host.JoinArgs(v.added)+"\n")); err != nil {
			return err
		}
	}
	if text == "" {
		return o.root.Remove(o.path)
	}
	entry := v.entry
	if entry.Kind == host.Absent {
		entry = host.Entry{Mode: 0o644}
		if err := o.root.MkdirAll(path.Dir(o.path)); err != nil {
			return err
		}
	}
	return o.root.Write(o.path, host.Entry{Mode: entry.Mode, Owner: entry.Owner}, []byte(text))
}

// verify checks that the generated config boots the first kernel with the wanted arguments at the end of the daemon's.
// Without this check, the daemon would find only after the reboot that a later file drops the arguments.
func (o *BootLoaderFile) verify(v view, want []string) error {
	text, err := o.content(grubConfig)
	if err != nil {
		return fmt.Errorf("reading %s: %w", grubConfig, err)
	}
	line, ok := kernelLine(text)
	switch {
	case !ok:
		return fmt.Errorf("%s reported no error, but %s boots no kernel", o.generate.Path, grubConfig)
	case len(want) > 0 && !strings.Contains(" "+line+" ", " "+strings.Join(want, " ")+" "):
		return fmt.Errorf("%s reported no error, but in %s the first kernel lacks %q: a file in %s or /etc/grub.d "+
			"replaces GRUB_CMDLINE_LINUX_DEFAULT", o.generate.Path, grubConfig, strings.Join(want, " "), grubDir)
	}
	allowed := slices.Concat(v.own, want)
	for _, a := range v.added {
		if !slices.Contains(allowed, a) && slices.Contains(strings.Fields(line), a) {
			return fmt.Errorf("%s reported no error, but in %s the first kernel still has %q: another file than %s "+
				"sets it", o.generate.Path, grubConfig, a, o.path)
		}
	}
	return nil
}

// kernelLine returns the words with which the config boots its first kernel.
func kernelLine(config string) (string, bool) {
	for line := range strings.Lines(config) {
		words := strings.Fields(line)
		if len(words) > 1 && (words[0] == "linux" || words[0] == "linuxefi") {
			return strings.Join(words[1:], " "), true
		}
	}
	return "", false
}

// Paths of boot loaders.

// view has the data that the daemon read from a machine.
type view struct {
	// text of the file; "" if it does not exist. entry has the owner and the mode of the file.
	text  string
	entry host.Entry
	// added are the arguments of the daemon in the file.
	added []string
	// own are the machine's own arguments. running are the arguments of the running kernel.
	own     []string
	running string
	// recorded is true if the arguments of the daemon at boot are in a file.
	recorded bool
}

// read reads the file and the running kernel.
func (o *BootLoaderFile) read() (v view, err error) {
	if v.running, err = o.running(); err != nil {
		return v, err
	}
	if v.entry, err = o.root.Stat(o.path); err == nil && v.entry.Kind != host.Absent && v.entry.Kind != host.File {
		err = errors.New("it is no file: move it away")
	}
	if err == nil {
		v.text, err = o.content(o.path)
	}
	if err == nil {
		v.added, err = o.format.args(v.text)
	}
	if err != nil {
		return v, fmt.Errorf("reading %s: %w", o.path, err)
	}
	booted := v.added
	if is, err := o.root.Stat(nodepath.BootedArguments); err == nil && is.Kind == host.File {
		words, err := o.content(nodepath.BootedArguments)
		if err != nil {
			return v, fmt.Errorf("reading %s: %w", nodepath.BootedArguments, err)
		}
		booted, v.recorded = host.SplitArgs(words), true
	}
	v.own = withoutLast(host.SplitArgs(v.running), booted)
	return v, nil
}

// content returns the text of a file; "" if it does not exist.
func (o *BootLoaderFile) content(at string) (string, error) {
	text, err := o.root.Read(at)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

// withoutLast removes the last occurrence of each word from a list.
func withoutLast(list, words []string) []string {
	left := slices.Clone(list)
	for _, w := range slices.Backward(words) {
		for i := len(left) - 1; i >= 0; i-- {
			if left[i] == w {
				left = slices.Delete(left, i, i+1)
				break
			}
		}
	}
	return left
}
