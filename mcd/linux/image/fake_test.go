package image

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"
)

// fakeDir names the environment variable under which this test binary plays the machine's rpm-ostree, bootc and ostree:
// it writes down what it is asked, and answers as the script in that directory says.
const fakeDir = "BUNSEN_FAKE_OS"

// ostreePlay answers as the script's section for as many changes as were made so far; a change takes one line of the
// section "fails" for its failure.
func ostreePlay(dir, program string, args []string) int {
	note(dir, program+" "+strings.Join(args, " "))
	script, err := txtar.ParseFile(filepath.Join(dir, "script"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	if section(script, "hangs") != "" {
		return hang()
	}
	changes := len(read(dir, "done"))
	looks := len(read(dir, "looks"))
	switch {
	case program == "rpm-ostree" && args[0] == "status":
		put(dir, "looks", "x")
		fmt.Println(rpmStatus(now(script, changes, looks)))
	case program == "rpm-ostree" && args[0] == "kargs" && strings.HasPrefix(args[1], "--deploy-index="):
		at, _ := strconv.Atoi(strings.TrimPrefix(args[1], "--deploy-index="))
		_, kargs, _ := strings.Cut(now(script, changes, looks-1)[at], " -- ")
		fmt.Println(kargs)
	case program == "bootc" && args[0] == "status":
		fmt.Println(bootcStatusText(now(script, changes, looks)))
	default:
		// The section "lost" has failures of changes that were made all the same.
		for i, f := range lines(section(script, "lost")) {
			if i == len(read(dir, "lost")) {
				put(dir, "lost", "x")
				put(dir, "done", "x")
				fmt.Fprintln(os.Stderr, f)
				return 1
			}
		}
		for i, f := range lines(section(script, "fails")) {
			if i == len(read(dir, "failed")) {
				put(dir, "failed", "x")
				fmt.Fprintln(os.Stderr, strings.ReplaceAll(f, `\n`, "\n"))
				return 1
			}
		}
		put(dir, "done", "x")
	}
	return 0
}

// note and put add to a file; read is what is in one.
func note(dir, line string) { put(dir, "does", line+"\n") }

func put(dir, name, text string) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err != nil {
		panic(err)
	}
	f.Close() //nolint:errcheck,gosec // a test's own file
}

func read(dir, name string) string {
	text, _ := os.ReadFile(filepath.Join(dir, name)) //nolint:errcheck // nothing is empty
	return string(text)
}

func section(a *txtar.Archive, name string) string {
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

func lines(text string) (all []string) {
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); l != "" {
			all = append(all, l)
		}
	}
	return all
}

// now is the machine after some changes: the last section "after n" that is no later. Before the first change, as many
// looks as the section "busy" has lines show somebody else's transaction.
func now(script *txtar.Archive, changes, looks int) []string {
	is := lines(section(script, "machine"))
	for n := 1; n <= changes; n++ {
		if after := lines(section(script, "after "+strconv.Itoa(n))); len(after) > 0 {
			is = after
		}
	}
	if changes == 0 && looks < len(lines(section(script, "busy"))) {
		is = append(slices.Clone(is), "transaction")
	}
	return is
}

// rpmStatus prints lines `booted image=… packages=a,b -- kernel arguments` as rpm-ostree does.
func rpmStatus(machine []string) string {
	type entry map[string]any
	status := map[string]any{"transaction": nil, "cached-update": nil, "update-driver": nil}
	list := []entry{}
	for _, line := range machine {
		line, _, _ = strings.Cut(line, " -- ")
		words := strings.Fields(line)
		if words[0] == "transaction" {
			status["transaction"] = []string{"upgrade (download only)", ":1.71", "/org/projectatomic/rpmostree1/rhcos"}
			continue
		}
		e := entry{
			"booted": words[0] == "booted", "staged": words[0] == "staged", "osname": "rhcos", "serial": 0,
			"checksum": "c0ffee", "pinned": false,
		}
		keys := map[string]string{
			"image": "container-image-reference", "origin": "origin", "commit": "checksum", "base": "base-checksum",
			"packages": "requested-packages",
			"removals": "requested-base-removals", "local": "requested-local-packages", "custom": "custom-origin",
		}
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			switch key = keys[key]; key {
			case "container-image-reference", "origin", "checksum", "base-checksum":
				e[key] = value
			default:
				e[key] = strings.Split(value, ",")
			}
		}
		list = append(list, e)
	}
	status["deployments"] = list
	text, _ := json.MarshalIndent(status, "", "  ") //nolint:errcheck // plain maps
	return string(text)
}

// bootcStatusText prints lines `booted image=…` as bootc does.
func bootcStatusText(machine []string) string {
	status := map[string]any{
		"staged": nil, "booted": nil, "rollback": nil, "rollbackQueued": false,
		"type": "bootcHost",
	}
	for _, line := range machine {
		words := strings.Fields(line)
		spec := strings.TrimPrefix(words[1], "image=")
		status[words[0]] = map[string]any{"incompatible": false, "pinned": false, "image": map[string]any{
			"image": map[string]any{"image": spec, "transport": "registry"}, "imageDigest": "sha256:0", "version": nil,
		}, "ostree": map[string]any{"checksum": "c0ffee", "deploySerial": 0}}
	}
	text, _ := json.Marshal(map[string]any{
		"apiVersion": "org.containers.bootc/v1", "kind": "BootcHost",
		"status": status,
	}) //nolint:errcheck // plain maps
	return string(text)
}
