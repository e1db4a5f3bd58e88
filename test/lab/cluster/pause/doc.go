// Command pause waits until it gets a signal. It holds the namespaces of a pod.
//
// In: a signal. Out: nothing. Never: any other work.
package main
