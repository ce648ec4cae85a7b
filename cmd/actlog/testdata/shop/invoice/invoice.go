// Package invoice is what a customer has to pay.
package invoice

// Days is how long a customer has for that.
const Days = 14

// Sum returns what an invoice is about, in cents, without the discount.
func Sum(cents []int) int {
	total := 0
	for _, each := range cents {
		total += each
	}
	if total > 10000 { // a tenth less from 100 euros on
		total -= total / 10
	}
	if total > 50000 { // and a gift
		total -= 500
	}
	return total
}
