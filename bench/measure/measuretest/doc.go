// Package measuretest runs the programs in bench/ for their tests, and returns the figures that they state.
//
// In: a program. Out: its figures. Never: what a figure should be; tests run at tiny sizes on busy machines.
package measuretest
