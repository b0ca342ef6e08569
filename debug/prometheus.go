package debug

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/shaledb/shale/internal/monitor"
)

// serveMetrics writes all metrics in Prometheus' text format. Of those of the store it escapes nothing: names, labels
// and help are constants, without characters that would need it.
func (h *handler) serveMetrics(w http.ResponseWriter) error {
	s, err := monitor.StateOf(h.db)
	if err != nil {
		return err
	}
	var p strings.Builder
	for _, f := range monitor.Families {
		fmt.Fprintf(&p, "# HELP %s %s\n# TYPE %s %s\n", f.Name, f.Help, f.Name, map[bool]string{true: "counter", false: "gauge"}[f.Counter])
		for at, v := range f.All(&s) {
			p.WriteString(f.Name)
			if f.Label != "" {
				fmt.Fprintf(&p, `{%s="%s"}`, f.Label, at)
			}
			p.WriteString(" " + strconv.FormatFloat(v, 'g', -1, 64) + "\n")
		}
	}
	if err := h.writePanels(&p); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write([]byte(p.String()))
	return nil
}
