// The script of all pages. They are whole without it: it makes them quicker, and adds keys.
import { openTree } from "./tree";

const tree = document.querySelector<HTMLElement>("[role=tree]");
if (tree) openTree(tree);
