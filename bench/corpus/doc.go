// Package corpus makes what the programs of bench/ measure with: Butane documents, MachineConfigs and whole git
// repositories, the same bytes on every run.
//
// In: numbers and sizes. Out: texts, files in a directory that the caller gives. Never: randomness without a seed.
package corpus
