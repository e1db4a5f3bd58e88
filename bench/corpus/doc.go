// Package corpus creates the input of the programs in bench/: Butane documents, MachineConfigs and whole git
// repositories. Every run creates the same bytes.
//
// In: numbers and sizes. Out: texts, files in a directory that the caller gives. Never: randomness without a seed.
package corpus
