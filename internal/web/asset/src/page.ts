// The script of all pages. They are whole without it: it makes them quicker, and adds keys.
import { bindKeys, type Key } from "./keys";
import { openTree } from "./tree";

const keys: Key[] = [{ keys: ["t"], does: "times in UTC or local" }];
const search = document.querySelector<HTMLElement>("input[type=search]");
if (search) keys.unshift({ keys: ["/"], does: "search", act: () => search.focus() });
const tree = document.querySelector<HTMLElement>("[role=tree]");
if (tree) keys.unshift(...openTree(tree));
bindKeys(keys);
