package licence

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("texts/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "{}", " the authors of it ")
}

func TestIdentify(t *testing.T) {
	catalogue, err := NewCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	mit, bsd2, bsd3, apache := read(t, "MIT.txt"), read(t, "BSD-2-Clause.txt"), read(t, "BSD-3-Clause.txt"),
		read(t, "Apache-2.0.txt")
	for name, test := range map[string]struct {
		text  string
		want  string
		known bool
	}{
		"a licence with a title and a copyright is known":     {"The MIT License (MIT)\n\nCopyright (c) 2020 Somebody\n\n" + mit, "MIT", true},
		"line breaks and capitals do not matter":              {strings.ToUpper(strings.ReplaceAll(mit, "\n", "  ")), "MIT", true},
		"two clauses are not three":                           {bsd2, "BSD-2-Clause", true},
		"three clauses are not two":                           {"Copyright 2009 The Go Authors.\n" + bsd3, "BSD-3-Clause", true},
		"a file with two licences has both":                   {apache + "\n\n" + mit, "Apache-2.0 MIT", true},
		"a clause more is not known":                          {mit + strings.Repeat("The Software shall be used for Good, not Evil, and not be sold. ", 4), "MIT", false},
		"a paid licence beside the licence is not known":      {mit + "\nWithout a paid commercial license you may not use this software at work.\n", "MIT", false},
		"a restriction in a line of copyright is not known":   {"(c) 2024 X: you may not use this commercially\n" + mit, "MIT", false},
		"a restriction in capitals is not known":              {"Copyright (c) 2024 Example Corp. You May Not Use This.\n" + mit, "MIT", false},
		"a sentence in a line of copyright is not known":      {"Copyright 2024 Example, ask us before anything else\n" + mit, "MIT", false},
		"a sentence in other letters is not known":            {mit + "\nТолько для личных целей.\n", "MIT", false},
		"a condition in place of a name is not known":         {strings.ReplaceAll(bsd3, "the authors of it", "the authors, who must be paid,"), "", false},
		"a changed accepted text is not known":                {"Not the MIT License\n\n" + mit, "MIT", false},
		"holders with addresses are no restriction":           {"Copyright (c) 2013, Georg Reinke (<guelfey at gmail dot com>), Google\nCopyright 2013 Chai <chai{AT}gmail.com>. All rights reserved.\nCopyright © 2019-present Péter Surányi <p@example.org>\n" + mit, "MIT", true},
		"holders in small letters are no restriction":         {"Copyright The containerd Authors\nCopyright (c) 2012-2016 The go-diff Authors. All rights reserved.\nCopyright (c) [2015] [go-gitignore]\nCopyright (c) 2021 golang-jwt maintainers\n" + mit, "MIT", true},
		"a changed word is not known":                         {strings.Replace(mit, "without restriction", "with restriction", 1), "", false},
		"a licence without its disclaimer is not known":       {mit[:len(mit)/2], "", false},
		"a copyright alone is not known":                      {"Copyright 2009 The Go Authors. All rights reserved.", "", false},
		"an empty file is not known":                          {"", "", false},
		"the line of a clause is no copyright":                {strings.ReplaceAll(bsd2, "the above copyright notice", "the above\ncopyright notice"), "BSD-2-Clause", true},
		"a mention of a licence is not the licence":           {"Licensed under the Apache License 2.0", "", false},
		"the pieces around a licence do not make another one": {strings.Replace(mit, "charge", "charge "+bsd2, 1), "BSD-2-Clause", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := catalogue.Identify(test.text)
			if strings.Join(got.Licences, " ") != test.want || got.Known() != test.known {
				t.Errorf("got %v, known %v, other words %v; want %q, %v", got.Licences, got.Known(), got.Other,
					test.want, test.known)
			}
		})
	}
}

func TestEveryKnownTextIsItself(t *testing.T) {
	catalogue, err := NewCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := texts.ReadDir("texts")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		id, _, _ := strings.Cut(strings.TrimSuffix(e.Name(), ".txt"), "_")
		got := catalogue.Identify(read(t, e.Name()))
		if len(got.Other) > 0 || id != prose && !slices.Equal(got.Licences, []string{id}) {
			t.Errorf("%s: got %v, other words %v", e.Name(), got.Licences, got.Other)
		}
	}
}

func TestAcceptedTextsAreSortedAndUnique(t *testing.T) {
	lines := slices.Collect(strings.Lines(accepted))
	if !slices.IsSorted(lines) || len(slices.Compact(slices.Clone(lines))) != len(lines) {
		t.Error("accepted.txt: sort the lines, and keep each once")
	}
}
