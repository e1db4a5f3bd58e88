// Command platforms checks the types of the CLI for every platform on which it is published, without compiling it: a
// call that Windows or macOS does not have is found in seconds. A release compiles the programs themselves.
//
// In: the sources of cmd/bunsen and of the modules that it links. Out: the errors of each platform. Never: a program.
package main
