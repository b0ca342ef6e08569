// Package figures has what the reports of the benchmarks share.
package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// A Machine is where a benchmark ran.
type Machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// ThisMachine is the one that the program runs on.
func ThisMachine() Machine {
	return Machine{runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()}
}

func (m Machine) String() string {
	return fmt.Sprintf("%s/%s, %d CPUs, %s", m.OS, m.Arch, m.CPUs, m.Go)
}

// Median is 0 for none, and the mean of the middle two of an even number.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Columns writes lines of cells that end with tabs, aligned to the right.
func Columns(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
}

// List splits the value of a flag.
func List(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

// WriteJSON writes a report to a file.
func WriteJSON(path string, report any) error {
	data, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
