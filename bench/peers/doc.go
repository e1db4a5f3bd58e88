// Package peers does what Bunsen does with the code of others, for the programs in bench/: Butane and kustomize as
// libraries, and the merge of the machine-config-operator, written from its rules. They run in the process of the
// program, in turn with what it measures.
//
// In: documents, MachineConfigs. Out: their errors. Never: results of earlier runs.
package peers
