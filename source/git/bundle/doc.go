// Package bundle reads git bundles: files that contain refs and the objects of these refs.
//
// In: the path of a file that anybody may have written, and that another process may replace at any time. Out: its
// refs, and a folder with its objects. Never: a wait for a pipe or a device; a part of a file that is not a bundle in
// an error; an object of a pack that was read in part.
package bundle
