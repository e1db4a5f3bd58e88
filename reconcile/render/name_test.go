package render

import (
	"bytes"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/util"
	"github.com/google/go-cmp/cmp"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// hardTexts are texts for which a YAML writer has to decide on quotes, folding, escapes or a type.
var hardTexts = []string{
	"", "y", "Y", "yes", "No", "on", "OFF", "true", "True", "null", "Null", "~", "1e3", "1E+3", "0x1F", "0o17", "017",
	"0b101", "1_000", "-0", "+1", ".5", "5.", ".inf", "-.INF",
	".nan", "190:20:30", "2026-01-02", "2026-01-02T03:04:05Z", "<<", "=", "!", "!!binary x", "&a", "*a", "%YAML 1.1",
	"@", "`", "|", ">", "?", "? x", "- x", "-", "---", "...", "a: b",
	"a:b", "a:", ":a", "a #b", "#a", "[a]", "{a}", "a,b", "'", `"`, `\`, `\n`, "it's", " lead", "trail ", "\tlead",
	"trail\t", "in\tside", "\n", "\n\n", "a\n", "a\n\n", "\na", " \na", "a\n b\n\tc\n",
	"a\r\nb", "\r", "\x00", "\x1b[0m", "\x7f", "\u0080", "\u0085", "\u00a0", "\u2028", "\u2029", "\ufeff", "\ufeffa",
	"\ufffd", "ä", "日本語", "😀", "\U0010ffff", "a\u200bb", "e\u0301",
	strings.Repeat("word ", 60), strings.Repeat("x", 300), strings.Repeat("long words that fold\n", 12),
	strings.Repeat("ä ", 90), strings.Repeat("a  b ", 40), "9223372036854775807", "9223372036854775808",
	"18446744073709551616", "0.1", "1.0", "1e400", "<&>", "data:,a%0Ab", "data:;base64,QUJD==", "http://[::1]:80/", "0",
	"00", "08", "1.2.3", "1:2", "12e03", "-2E+05", "0e0",
}

// hardConfigs are one config for each hard text, with the text in many places, and random ones after that.
func hardConfigs() (all []machineconfig.Config) {
	for _, s := range hardTexts {
		c := machineconfig.Config{
			HasIgnition: true, KernelType: s, OSImageURL: s,
			KernelArguments: []string{s, "a=" + s},
		}
		c.Ignition = lists{
			files: []ign.File{{
				Node: ign.Node{Path: "/etc/" + s},
				FileEmbedded1: ign.FileEmbedded1{
					Contents: ign.Resource{Source: util.StrToPtr(s)},
					Mode:     util.IntToPtr(len(s)),
				},
			}},
			directories: []ign.Directory{{Node: ign.Node{Path: s, User: ign.NodeUser{Name: util.StrToPtr(s)}}}},
			links: []ign.Link{{Node: ign.Node{Path: s}, LinkEmbedded1: ign.LinkEmbedded1{
				Target: util.StrToPtr(s),
				Hard:   util.BoolToPtr(len(s)%2 == 0),
			}}},
			units: []ign.Unit{{
				Name: s, Contents: util.StrToPtr(s),
				Dropins: []ign.Dropin{{Name: s, Contents: util.StrToPtr(s + "\n" + s)}},
			}},
			users:  []ign.PasswdUser{{Name: s, SSHAuthorizedKeys: []ign.SSHAuthorizedKey{ign.SSHAuthorizedKey(s)}}},
			groups: []ign.PasswdGroup{{Name: s, Gid: util.IntToPtr(1 << 30)}},
		}.into(c.Ignition)
		all = append(all, c)
	}
	r := rand.New(rand.NewSource(11))
	for range 400 {
		c := oddRest(r)
		if r.Intn(2) == 0 {
			c.KernelArguments = append(c.KernelArguments, hardTexts[r.Intn(len(hardTexts))]+
				hardTexts[r.Intn(len(hardTexts))])
		}
		c.Ignition = oddLists(r).into(c.Ignition)
		all = append(all, c)
	}
	return all
}

// TestNamesOfHardTextsStay holds the names of configs with hard texts against testdata/names.txt. Every node of a fleet
// gets a new config when a name changes, so that no version of a YAML library may change one. The file was written with
// github.com/ghodss/yaml v1.0.0, the library of the machine-config-operator. No flag rewrites it.
func TestNamesOfHardTextsStay(t *testing.T) {
	want, err := os.ReadFile("testdata/names.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for i, c := range hardConfigs() {
		spec, err := c.Spec()
		if err != nil {
			t.Fatal(err)
		}
		name, err := Name("p", spec)
		if err != nil {
			name = "no name" // YAML has no place for some characters
		}
		about := "random"
		if i < len(hardTexts) {
			about = fmt.Sprintf("%.40q", hardTexts[i])
		}
		fmt.Fprintf(&got, "%s %s\n", name, about)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("names changed (-testdata/names.txt +now):\n%s", diff)
	}
}

func oddRest(r *rand.Rand) machineconfig.Config {
	c := machineconfig.Config{HasIgnition: true, KernelType: oddText(r), OSImageURL: oddText(r)}
	for range r.Intn(3) {
		c.KernelArguments = append(c.KernelArguments, oddText(r))
	}
	if r.Intn(3) == 0 {
		c.Ignition.Storage.Luks = []ign.Luks{{Name: oddText(r), Label: util.StrToPtr(oddText(r))}}
	}
	if r.Intn(3) == 0 {
		c.Ignition.Ignition.Proxy.HTTPProxy = util.StrToPtr(oddText(r))
	}
	return c
}

func oddLists(r *rand.Rand) (l lists) {
	node := func() ign.Node { return ign.Node{Path: oddText(r), User: ign.NodeUser{Name: some(r, "true", "0x1")}} }
	for range r.Intn(4) {
		f := ign.File{Node: node()}
		f.Contents.Source = util.StrToPtr(oddSource(r))
		if r.Intn(3) == 0 {
			f.Append = []ign.Resource{{}, {Source: util.StrToPtr(oddSource(r))}}
		}
		l.files = append(l.files, f)
	}
	for range r.Intn(2) {
		l.directories = append(l.directories, ign.Directory{Node: node()})
	}
	for range r.Intn(2) {
		l.links = append(l.links,
			ign.Link{Node: node(), LinkEmbedded1: ign.LinkEmbedded1{Target: util.StrToPtr(oddText(r))}})
	}
	for range r.Intn(3) {
		l.units = append(l.units, ign.Unit{
			Name: oddText(r), Contents: util.StrToPtr(oddText(r)),
			Dropins: []ign.Dropin{{Name: oddText(r)}},
		})
	}
	for range r.Intn(2) {
		l.users = append(l.users,
			ign.PasswdUser{
				Name:              oddText(r),
				SSHAuthorizedKeys: []ign.SSHAuthorizedKey{ign.SSHAuthorizedKey(oddText(r))},
			})
	}
	for range r.Intn(2) {
		l.groups = append(l.groups, ign.PasswdGroup{Name: oddText(r)})
	}
	return l
}

// oddSource is mostly a long source of letters that YAML takes as they are.
func oddSource(r *rand.Rand) string {
	if r.Intn(4) == 0 {
		return oddText(r)
	}
	const letters = "abcXYZ0189%,;:/+=._~-"
	text := []string{"data:", "data:;base64,", "data:,", "daTa:"}[r.Intn(4)]
	for range r.Intn(200) {
		text += string(letters[r.Intn(len(letters))])
	}
	if r.Intn(100) == 0 {
		text = fmt.Sprintf("data:,stand-in-%010d%s", r.Intn(3), text)
	}
	return text
}

// oddText is text of which YAML has to think how to write it.
func oddText(r *rand.Rand) string {
	parts := []string{
		"a", " ", "\n", "\n\n", ": ", "# ", "'", `"`, "\\", "\t", "ä", "😀", "- ", "{", "true", "0644", "~", "<&>", "\r",
		"items-of-files", "\n    - path: items-of-files\n",
		`{"path":"items-of-files"}`, `"files":[`, "a long run of words that goes on and on and on until every line " +
			"that folds has folded ",
	}
	text := ""
	for range r.Intn(6) {
		text += parts[r.Intn(len(parts))]
	}
	if r.Intn(60) == 0 {
		text += []string{"\u2028", "\u2029", "\u0085"}[r.Intn(3)]
	}
	return text
}
