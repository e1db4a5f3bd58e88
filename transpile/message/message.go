package message

import (
	"errors"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/safetext"
)

// Translate returns what to write instead of a value that a library rejected with a message. The value is "" if the
// user cannot see it. Translate returns a message that is not in the table unchanged.
func Translate(text, value string) string {
	if m := garbage.FindString(text); m != "" {
		return "there is text behind the [Name] of a section, on the same line: move it to the next line"
	}
	if base64Error.MatchString(text) {
		return base64Error.ReplaceAllString(text, "${1}it is not base64: write what `base64 -w0 FILE` prints, or, in "+
			"Butane, the text itself as `inline:`")
	}
	if strings.HasPrefix(text, "rfc2396: ") || strings.HasPrefix(text, "missing media type ") {
		return dataURL
	}
	ours, known := table[text]
	if !known {
		return text
	}
	if !strings.Contains(ours, "%[") {
		return ours
	}
	shown, instead := "the value", example(text)
	if value != "" {
		shown, instead = strconv.Quote(value), correct(text, value)
	}
	return strings.NewReplacer("%[1]s", shown, "%[2]s", instead).Replace(ours)
}

// OfProblem returns a problem with its place and the translated message: `files[0] /etc/x path: …`. A message may stand
// behind another place: `clevis: thumbprint is required`.
func OfProblem(p machineconfig.Problem) string {
	var ours string
	if within, nested := p.Err.(machineconfig.Problem); nested {
		ours = OfProblem(within)
	} else {
		text, value := p.Err.Error(), ""
		if isKey, field := strings.Count(p.Path, ".") == 4, path.Ext(p.Path); isKey && !safetext.HasHidden(p.Item) &&
			(field == ".path" || field == ".name") {
			value = p.Item
		}
		ours = Translate(text, value)
		for i := 0; ours == text; {
			next := strings.Index(text[i:], ": ")
			if next < 0 {
				break
			}
			i += next + len(": ")
			ours = text[:i] + Translate(text[i:], "")
		}
	}
	p.Err = errors.New(ours)
	return p.Error()
}

var (
	garbage     = regexp.MustCompile(`found garbage after section name`)
	base64Error = regexp.MustCompile(`^(.*?)illegal base64 data at input byte \d+$`)
)

// correct returns the value that the user probably meant.
func correct(text, value string) string {
	switch {
	case strings.HasPrefix(text, "path "):
		if cleaned := path.Clean("/" + value); cleaned != "/" {
			return cleaned
		}
		return "the path of the file"
	case strings.Contains(text, "drop-in"):
		return strings.TrimSuffix(value, ".") + ".conf"
	case strings.Contains(text, "unit extension"):
		return strings.TrimSuffix(value, ".") + ".service"
	default:
		return example(text)
	}
}

// example returns an example of a correct value, for a message about an unknown value.
func example(text string) string {
	switch {
	case strings.HasPrefix(text, "path "):
		return "a path such as /etc/chrony.conf"
	case strings.Contains(text, "drop-in"):
		return "a name that ends in .conf"
	default:
		return "a name such as chronyd.service"
	}
}

// Closest returns the word that is most similar to a mistyped word, or "" if no word is similar. Of words with the same
// distance, Closest returns the first one in lexical order.
func Closest(typo string, words []string) string {
	best, distance := "", len(typo)/3+1
	for _, w := range words {
		if abs(len(w)-len(typo)) > distance {
			continue
		}
		if d := Distance(typo, w); d < distance || d == distance && best != "" && w < best {
			best, distance = w, d
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// Distance returns the number of bytes to add, remove or replace to turn one word into the other.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
