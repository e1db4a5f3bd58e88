package message

import (
	"path"
	"regexp"
	"strconv"
	"strings"
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

// TranslateLine translates the message at the end of a line. The line begins with the place in the config: `files[0]
// /etc/x path: path not absolute`.
func TranslateLine(line string) string {
	for i := 0; ; {
		value := ""
		if m := named.FindStringSubmatch(line[:i]); m != nil {
			value = m[1]
		}
		if ours := Translate(line[i:], value); ours != line[i:] {
			return line[:i] + ours
		}
		next := strings.Index(line[i:], ": ")
		if next < 0 {
			return line
		}
		i += next + len(": ")
	}
}

var (
	garbage = regexp.MustCompile(`found garbage after section name`)
	// named matches a place whose last word is the value that the message is about.
	named       = regexp.MustCompile(`\[\d+\] (\S+) (?:path|name): $`)
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
