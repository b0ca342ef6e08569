package base

import (
	"testing"
	"time"
)

func TestFormatPercent(t *testing.T) {
	for p, want := range map[float64]string{
		0: "0 %", 1: "100 %", 0.00957: "0.957 %", 1.67e-5: "0.00167 %", 1e-6: "0.0001 %", 9.9e-7: "<0.0001 %", 2.9e-20: "<0.0001 %",
	} {
		if got := FormatPercent(p); got != want {
			t.Errorf("FormatPercent(%v) = %q, want %q", p, got, want)
		}
	}
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 3 << 39: "1.5 TiB", 1 << 50: "1024.0 TiB",
	} {
		if got := FormatBytes(n); got != want {
			t.Errorf("FormatBytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestFormatNumber(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 300_000: "300,000", 1<<64 - 1: "18,446,744,073,709,551,615"} {
		if got := FormatNumber(n); got != want {
			t.Errorf("FormatNumber(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 971: "971 ns", 1000: "1 µs", 42_345: "42.3 µs", 999_960: "1 ms", 7009 * time.Microsecond: "7.01 ms",
		583_480 * time.Microsecond: "583 ms", 999_800 * time.Microsecond: "1 s", 1_432 * time.Millisecond: "1.43 s",
		12 * time.Second: "12 s", 99_960 * time.Millisecond: "100 s", 119_900 * time.Millisecond: "120 s",
		125 * time.Second: "2 min 5 s", 72*time.Minute + 59*time.Second: "1 h 12 min", 720 * time.Hour: "720 h 0 min", -90 * time.Second: "-90 s",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("FormatDuration(%v) = %q, want %q", int64(d), got, want)
		}
	}
}
