// Command prose checks the texts of the repository against the project's rules for sentences.
//
//	go run -C tools ./prose              report each file that has more offences than baseline.txt allows
//	go run -C tools ./prose -list PATH   print every offence below the paths
//	go run -C tools ./prose -update      write the counts to baseline.txt, if their sum does not grow
//
// Command prose reads Markdown outside of code, the texts in Go string literals (messages and the help of the
// programs), and the comments and descriptions of config/ and examples/. The rules are: at most 25 words a sentence (30
// in a table), no word of words.txt, no passive with a verb of passive.txt that does not name the actor, and Markdown
// wrapped at 100 columns.
//
// In: the files of the repository, words.txt, passive.txt, baseline.txt. Out: offences. Never: a judgement that only a
// reader can make, such as whether a sentence is true.
package main
