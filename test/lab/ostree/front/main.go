package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run does one verb.
func run(args []string) error {
	if len(args) == 0 {
		return errors.New("no verb")
	}
	all, err := deployments()
	if err != nil {
		return err
	}
	switch args[0] {
	case "status":
		return status(all)
	case "rebase":
		return rebase(all, args[len(args)-1], slices.Contains(args, "--download-only"))
	case "kargs":
		return kargs(all, args[1:])
	case "cleanup":
		return cleanup(all, args[1:])
	case "rollback":
		return rollback(all)
	}
	return fmt.Errorf("unknown command %q: hosts of the lab have no packages", args[0])
}

// rebase stages an image, or only downloads it.
func rebase(all []deployment, reference string, only bool) error {
	_, image, ok := strings.Cut(reference, ":")
	if !ok || !strings.HasPrefix(reference, "ostree-") {
		return fmt.Errorf("%q is no reference of an image", reference)
	}
	image = strings.TrimPrefix(image, "docker://")
	if all[0].image == reference {
		return errors.New("old and new refs are equal: " + reference)
	}
	ref, err := pull(refOf(image))
	if err != nil {
		return fmt.Errorf("creating importer: %w", err)
	}
	if only {
		return nil
	}
	return stage(all[0].os, ref, reference, all[0].kargs)
}

// pull fetches an image, from the registry's directory or from the remote where the host has a network instead, and
// tells how it is called here.
func pull(ref string) (string, error) {
	if _, err := os.Stat(registry); err == nil {
		_, err = ostree("pull-local", "--repo=/sysroot/ostree/repo", registry, ref)
		return ref, err
	}
	_, err := ostree("pull", "--repo=/sysroot/ostree/repo", remote, ref)
	return remote + ":" + ref, err
}

// kargs prints or changes kernel arguments: what is deleted first, then what is appended, in the order of the options.
func kargs(all []deployment, args []string) error {
	is, del, add := all[0], []string(nil), []string(nil)
	for _, a := range args {
		option, value, _ := strings.Cut(a, "=")
		switch option {
		case "--deploy-index":
			at, err := strconv.Atoi(value)
			if err != nil || at < 0 || at >= len(all) {
				return fmt.Errorf("out of range deployment index %s, expected < %d", value, len(all))
			}
			is = all[at]
		case "--delete":
			del = append(del, value)
		case "--append":
			add = append(add, value)
		default:
			return fmt.Errorf("unknown option %s", a)
		}
	}
	if len(del)+len(add) == 0 {
		fmt.Println(strings.Join(is.kargs, " "))
		return nil
	}
	list := slices.Clone(is.kargs)
	for _, word := range del {
		at := slices.Index(list, word)
		if at < 0 {
			return fmt.Errorf("no karg '%s' found", word)
		}
		list = slices.Delete(list, at, at+1)
	}
	return stage(is.os, is.checksum, is.image, append(list, add...))
}

// cleanup takes away what the next boot would have, or what came before.
func cleanup(all []deployment, args []string) error {
	booted := slices.IndexFunc(all, func(d deployment) bool { return d.booted })
	switch {
	case slices.Contains(args, "-p") && booted > 0:
		return undeploy(0)
	case slices.Contains(args, "-r") && booted < len(all)-1:
		return undeploy(len(all) - 1)
	}
	fmt.Println("Deployments unchanged.")
	return nil
}

func undeploy(at int) error {
	_, err := ostree("admin", "undeploy", strconv.Itoa(at))
	return err
}

// rollback stages what ran before.
func rollback(all []deployment) error {
	booted := slices.IndexFunc(all, func(d deployment) bool { return d.booted })
	if booted == len(all)-1 {
		return errors.New("no deployment to roll back to")
	}
	before := all[len(all)-1]
	return stage(before.os, before.checksum, before.image, before.kargs)
}

// ostree runs the real one.
func ostree(args ...string) (string, error) {
	cmd := exec.Command("ostree", args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ostree %s: %w: %s", args[0], err, strings.TrimSpace(said.String()))
	}
	return string(out), nil
}
