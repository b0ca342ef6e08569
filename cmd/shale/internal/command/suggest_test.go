package command

import "testing"

func TestDidYouMean(t *testing.T) {
	names := []string{"get", "put", "scan", "compact", "filters rebuild", "explain", "export", "--limit", "explode"}
	for text, want := range map[string]string{
		"gte": "; did you mean get?", "PUT": "; did you mean put?", "comapct": "; did you mean compact?", "x": "", "": "",
		"nonsense": "", "\xff\xff\xff": "",
		"exp": "; did you mean explain, export or explode?", "expl": "; did you mean explain or explode?", "EXPO": "; did you mean export?",
		"p": "", "--lim": "; did you mean --limit?", "--l": "",
	} {
		if got := didYouMean(text, names); got != want {
			t.Errorf("didYouMean(%q) = %q, want %q", text, got, want)
		}
	}
}
