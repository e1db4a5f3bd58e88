package measure

import (
	"fmt"
	"strconv"
	"strings"
)

// Sizes is a flag of growing numbers: 10,100,1000.
type Sizes []int

// String writes the numbers in the format of Set.
func (s *Sizes) String() string {
	var words []string
	for _, n := range *s {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ",")
}

// Set parses the flag. The error shows the expected format.
func (s *Sizes) Set(text string) error {
	var sizes []int
	for _, word := range strings.Split(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || len(sizes) > 0 && n <= sizes[len(sizes)-1] {
			return fmt.Errorf("%q: want numbers from 1 on, growing, with commas between them", text)
		}
		sizes = append(sizes, n)
	}
	*s = sizes
	return nil
}
