package licence

import (
	"regexp"
	"strings"
	"unicode"
)

// maxHolder limits the words of names in a line of copyright.
const maxHolder = 8

var (
	copyrightLine = regexp.MustCompile(
		`(?im)^[^\w\n]*(?:portions |modifications )?(?:(?:copyright|©|\(c\))[^\n]*(?:\d{4}|\(c\)|©|authors|<)[^\n]*|all rights reserved\W*)$`)
	notNames = regexp.MustCompile(
		`(?i)\(c\)|©|all rights reserved|[\w.+-]+@[\w.-]+|<[\w.+-]+ at [\w.-]+(?: dot \w+)*>|<\S+\{at\}\S+>`)
	beside = regexp.MustCompile(
		`(?i)^(?:\d{4}(?:-\d{4}|-present)?|copyright|portions|modifications|and|at|the|authors|contributors|maintainers|project)$`)
	// condition matches words that occur in a condition of a licence and not in a name. Together with the limits for
	// capitals and for length, condition prevents that "You May Not Use This" counts as a name.
	condition = regexp.MustCompile(
		`(?i)\b(?:you|your|no|not|non|none|may|must|shall|only|unless|except|without|requires?|us(?:e|es|ed|age|ing)|sell|sold|redistribut\w*|` +
			`commercial\w*|permi(?:t|ss)\w*|prohibit\w*|restrict\w*|forbid\w*|licen[cs]\w*|pay\w*|paid|fees?)\b`)
)

// withoutCopyright drops the lines that have years and names of holders only.
func withoutCopyright(text string) string {
	return copyrightLine.ReplaceAllStringFunc(text, func(line string) string {
		if isHolders(line) {
			return ""
		}
		return line
	})
}

// isHolders reports whether a line of copyright consists of years, addresses and a few names. At most one of the names
// may have lower-case letters.
func isHolders(line string) bool {
	if condition.MatchString(line) {
		return false
	}
	names, small := 0, 0
	for _, w := range strings.FieldsFunc(notNames.ReplaceAllString(line, " "), isBetweenNames) {
		if w = strings.Trim(w, ".-"); w == "" || beside.MatchString(w) {
			continue
		}
		names++
		if !unicode.IsUpper([]rune(w)[0]) {
			small++
		}
	}
	return names <= maxHolder && small <= 1
}

// isBetweenNames reports whether a character separates names. A hyphen or a dot inside a name does not separate names.
func isBetweenNames(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '.' || r == '–'
}
