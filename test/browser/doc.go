// Package browser tests the console with Chromium, against `bunsen-standalone up`: a real control plane, our programs
// and simulated hosts. It is a module of its own, so that the driver of the browser is in no other module.
//
// In: the programs in bin/, Chromium, testdata/repository. Out: test results, pictures of each page. Never: a test that
// is skipped because a program is missing; a wait for a fixed time.
package browser
