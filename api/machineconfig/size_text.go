package machineconfig

import "fmt"

// SizeText returns a number of bytes for people: "1 byte", "12 KiB", "1.5 MiB", "100 MiB".
func SizeText(bytes int64) string {
	const kib, mib = 1 << 10, 1 << 20
	switch {
	case bytes == 1:
		return "1 byte"
	case bytes < kib:
		return fmt.Sprintf("%d bytes", bytes)
	case bytes < mib-kib/2:
		return fmt.Sprintf("%d KiB", (bytes+kib/2)/kib)
	case bytes < 10*mib && (bytes*10+mib/2)/mib%10 != 0:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/mib)
	}
	return fmt.Sprintf("%d MiB", (bytes+mib/2)/mib)
}
