// Package cart is what a customer wants to buy.
package cart

// Total returns what a cart costs, in cents, without the discount.
func Total(cents []int) int {
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
