package render

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/ghodss/yaml"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// texts are those of the items of each list.
type texts [listCount][]text

// writeOwn makes the texts of all fragments that have none yet.
func writeOwn(inputs []input) error {
	var missing []*fragment
	var all []lists
	for _, in := range inputs {
		if in.texts.Load() == nil {
			missing, all = append(missing, in.fragment), append(all, in.own)
		}
	}
	written, err := write(all)
	if err != nil {
		return err
	}
	for i, f := range missing {
		f.texts.Store(&written[i]) // a second one, of another call, would be the same
	}
	return nil
}

// write returns the texts of all items of several configs.
func write(configs []lists) (all []texts, err error) {
	all = make([]texts, len(configs))
	var missing [listCount][]*text
	for i, l := range configs {
		raw, err := machineconfig.Config{Ignition: l.into(ign.Config{})}.IgnitionJSON()
		if err != nil {
			return nil, err
		}
		items, err := split(raw)
		if err != nil {
			return nil, err
		}
		for list := range items {
			all[i][list] = make([]text, len(items[list]))
			for j, item := range items[list] {
				all[i][list][j].json = item
				if !rare(item) {
					missing[list] = append(missing[list], &all[i][list][j])
				}
			}
		}
	}
	for list := range missing {
		if err := writeYAML(list, missing[list]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// batch is about how much JSON goes through the YAML writer in one call: each call costs its buffers, and a long text
// is copied often while it grows.
const batch = 128 << 10

// writeYAML adds the YAML to items of one list.
func writeYAML(list int, items []*text) error {
	for len(items) > 0 {
		n, size := 0, 0
		for n < len(items) && size < batch {
			size += len(items[n].json)
			n++
		}
		if err := writeBatch(list, items[:n]); err != nil {
			return err
		}
		items = items[n:]
	}
	return nil
}

func writeBatch(list int, items []*text) error {
	var doc bytes.Buffer
	var sources standIns
	shortens := !slices.ContainsFunc(items, func(t *text) bool { return bytes.Contains(t.json, []byte(standIn)) })
	fmt.Fprintf(&doc, `{"config":{%q:{%q:[`, listTable[list].section, listTable[list].name)
	for i, item := range items {
		if i > 0 {
			doc.WriteByte(',')
		}
		if shortens {
			sources.shorten(&doc, item.json)
		} else {
			doc.Write(item.json)
		}
	}
	doc.WriteString(`]}}}`)
	short, err := yaml.JSONToYAML(doc.Bytes())
	if err != nil {
		return fmt.Errorf("writing %s as YAML: %w", listTable[list].name, err)
	}
	all := sources.restore(short)
	// All that belongs to an item is indented deeper than the dash that begins it.
	dash := []byte("\n    - ")
	at := bytes.Index(all, dash)
	for i, item := range items {
		next := len(all) - 1
		if i < len(items)-1 {
			if next = bytes.Index(all[at+1:], dash); next >= 0 {
				next += at + 1
			}
		}
		if at < 0 || next < 0 {
			return fmt.Errorf("the YAML of %d items of %s has %d", len(items), listTable[list].name, i)
		}
		item.yaml = all[at+1 : next+1 : next+1]
		at = next
	}
	if bytes.Contains(items[len(items)-1].yaml, dash) {
		return fmt.Errorf("the YAML of %d items of %s has more", len(items), listTable[list].name)
	}
	return nil
}

// rareBreaks are the line breaks of Unicode, raw and as JSON writes them. The YAML writer loses count of lines over them,
// so that what it writes for an item depends on what comes next.
var rareBreaks = []string{"\u0085", "\u2028", "\u2029", `\u0085`, `\u2028`, `\u2029`}

func rare(json []byte) bool {
	for _, b := range rareBreaks {
		if bytes.Contains(json, []byte(b)) {
			return true
		}
	}
	return false
}

// standIns are short texts in place of long sources, which are most of a config's bytes, and which the YAML writer gives
// back as they are: they begin with data: and have neither blanks nor anything else that YAML would have to quote.
type standIns [][]byte

const (
	standIn   = "data:,stand-in-"
	indexSize = 10
	sourceKey = `"source":"`
)

// shorten writes an item's JSON with stand-ins.
func (s *standIns) shorten(to *bytes.Buffer, json []byte) {
	for {
		at := bytes.Index(json, []byte(sourceKey))
		if at < 0 {
			break
		}
		at += len(sourceKey)
		end := at + bytes.IndexByte(json[at:], '"')
		to.Write(json[:at])
		if source := json[at:end]; len(source) > 64 && verbatim(source) {
			fmt.Fprintf(to, "%s%0*d", standIn, indexSize, len(*s))
			*s = append(*s, source)
		} else {
			to.Write(source)
		}
		json = json[end:]
	}
	to.Write(json)
}

// verbatim tells that YAML writes a text as it is, without quotes and on one line.
func verbatim(source []byte) bool {
	if !bytes.HasPrefix(source, []byte("data:")) || source[len(source)-1] == ':' {
		return false
	}
	for _, c := range source {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', bytes.IndexByte([]byte("%,;:/+=._~-"), c) >= 0:
		default:
			return false
		}
	}
	return true
}

// restore puts the sources back in YAML.
func (s standIns) restore(short []byte) []byte {
	if len(s) == 0 {
		return short
	}
	size := len(short)
	for _, source := range s {
		size += len(source)
	}
	all := make([]byte, 0, size)
	for {
		at := bytes.Index(short, []byte(standIn))
		if at < 0 {
			return append(all, short...)
		}
		end := at + len(standIn) + indexSize
		n, _ := strconv.Atoi(string(short[at+len(standIn) : end])) // shorten wrote it
		all = append(append(all, short[:at]...), s[n]...)
		short = short[end:]
	}
}
