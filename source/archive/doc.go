// Package archive reads the files of a source from a tar archive, and writes files to a tar archive.
//
// In: an archive that anybody may have written, or files. Out: the same inventory as for the same files in git, or an
// archive. Never: a link, a device or a path outside of the archive's root.
package archive
