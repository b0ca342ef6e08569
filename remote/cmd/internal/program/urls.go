package program

import "fmt"

// The URLs of the demonstration: made from their numbers, so that each run has the same ones.

var (
	adjectives = []string{"amber", "brisk", "calm", "dusty", "early", "faint", "grand", "hollow", "ivory", "jolly", "keen", "lucid", "mellow", "noble", "open", "plain", "quiet", "rapid", "silver", "tidy", "upper", "vivid", "warm", "young"}
	nouns      = []string{"anchor", "bridge", "canyon", "delta", "ember", "forest", "garden", "harbour", "island", "junction", "kettle", "lantern", "meadow", "needle", "orchard", "pebble", "quarry", "river", "summit", "tower", "umbrella", "valley", "window", "yard"}
	folders    = []string{"articles", "blog", "docs", "en/news", "forum/topic", "gallery", "item", "products", "reviews", "search", "users", "wiki"}
)

// appendURL appends URL number n to dst. Numbers next to each other lead to hosts that are not: a crawler meets hosts in no
// order. Different numbers make different URLs.
func appendURL(dst []byte, n uint64) []byte {
	h := mixed(n)
	pick := func(words []string) string {
		w := words[h%uint64(len(words))]
		h /= uint64(len(words))
		return w
	}
	dst = fmt.Appendf(dst, "https://%s-%s%d.example/%s/", pick(adjectives), pick(nouns), h%97, pick(folders))
	return fmt.Appendf(dst, "%s-%s-%x", pick(nouns), pick(adjectives), n)
}

// mixed spreads the bits of n: it is the finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
func mixed(n uint64) uint64 {
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
