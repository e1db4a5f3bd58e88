// Package licence recognises the text of a licence.
//
// In: the text of a file. Out: the known licences in the text, and the words of the text that belong to no known
// licence. Never: a guess. A text with one clause more or less than a known licence is unknown. A text with another
// sentence that is not in accepted.txt is also unknown, even if the sentence is in a line of copyright.
package licence
