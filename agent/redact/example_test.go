package redact_test

import (
	"fmt"

	"github.com/actlog/actlog/agent/redact"
)

func ExampleRedactor() {
	r, err := redact.New("email", "bearer-token", `order-\d+`)
	if err != nil {
		fmt.Println(err)
		return
	}

	text, counts := r.Text("Send order-17 to bob@example.com.")
	fmt.Println(text, counts)

	arguments, counts := r.JSON([]byte(`{"to": "bob\u0040example.com", "urgent": true}`))
	fmt.Println(string(arguments), counts)
	// Output:
	// Send [redacted] to [email]. map[email:1 redacted:1]
	// {"to": "[email]", "urgent": true} map[email:1]
}
