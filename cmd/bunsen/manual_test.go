package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

var manual = flag.String("manual", "", "a directory in which TestTheManual leaves the man pages and the scripts for "+
	"shells; make release sets it, and SOURCE_DATE_EPOCH for the date of the pages")

// tables matches the first columns of a line of a table, which is code to the library, so that it keeps its lines.
var tables = regexp.MustCompile(`(\n)  (\d)`)

// TestTheManual writes a man page of each verb, and the scripts that complete command lines.
func TestTheManual(t *testing.T) {
	dir := *manual
	if dir == "" {
		dir = t.TempDir()
	}
	man, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	for _, d := range []string{man, completions} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	bunsen := root()
	bunsen.InitDefaultCompletionCmd()
	bunsen.InitDefaultHelpCmd()
	bunsen.DisableAutoGenTag = true
	bunsen.Long = strings.Replace(tables.ReplaceAllString(bunsen.Long, "$1    $2"), "\n    0", "\n\n    0", 1)
	header := doc.GenManHeader{Section: "1", Source: "Bunsen", Manual: "Bunsen"}
	if err := doc.GenManTree(bunsen, &header, man); err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(string) error{
		"bunsen.bash": func(to string) error { return bunsen.GenBashCompletionFileV2(to, true) },
		"_bunsen":     bunsen.GenZshCompletionFile,
		"bunsen.fish": func(to string) error { return bunsen.GenFishCompletionFile(to, true) },
		"bunsen.ps1":  bunsen.GenPowerShellCompletionFileWithDesc,
	} {
		if err := write(filepath.Join(completions, name)); err != nil {
			t.Fatal(err)
		}
	}
	checkPages(t, bunsen, man)
}

// checkPages looks for the page of a command and of each of its verbs.
func checkPages(t *testing.T, cmd *cobra.Command, man string) {
	t.Helper()
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	page, err := os.ReadFile(filepath.Join(man, name+".1"))
	if err != nil {
		t.Error(err)
	}
	for _, want := range []string{".SH NAME\n" + name + ` `, ".SH SYNOPSIS\n", ".SH OPTIONS"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page of %s lacks %q:\n%.300s", cmd.CommandPath(), want, page)
		}
	}
	for _, verb := range cmd.Commands() {
		if verb.IsAvailableCommand() {
			checkPages(t, verb, man)
		}
	}
}
