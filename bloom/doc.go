// Package bloom has Bloom filters: sets that answer "certainly not" or
// "maybe", in ten bits a key.
package bloom
