package command

import "testing"

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"get", "get", 0}, {"gte", "get", 1}, {"ge", "get", 1}, {"gett", "get", 1}, {"gat", "get", 1},
		{"sacn", "scan", 1}, {"csna", "scan", 2}, {"cuont", "count", 1}, {"xy", "get", 3}, {"abcdef", "get", 3},
	} {
		if got := editDistance(c.a, c.b, 2); min(got, 3) != c.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	names := []string{"get", "put", "scan", "compact", "filters rebuild", "explain", "export", "expand all", "--limit", "explode"}
	for text, want := range map[string]string{
		"gte": "; did you mean get?", "PUT": "; did you mean put?", "comapct": "; did you mean compact?", "x": "", "": "",
		"nonsense": "", "filters rebiuld": "; did you mean filters rebuild?", "\xff\xff\xff": "",
		"exp": "; did you mean explain, export or explode?", "expl": "; did you mean explain or explode?", "EXPO": "; did you mean export?",
		"p": "", "--lim": "; did you mean --limit?", "--l": "", "filters re": "; did you mean filters rebuild?",
	} {
		if got := didYouMean(text, names); got != want {
			t.Errorf("didYouMean(%q) = %q, want %q", text, got, want)
		}
	}
}
