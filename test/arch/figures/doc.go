// Command figures prints what the sources measure: lines, packages, files, functions. They are for people, who run it
// by make figures in the root of the repository; no rule depends on them.
package main
