// Calls the module that is named, under node. What works returns; what cannot work traps, and has said why.
import { readFileSync } from "node:fs";

const module = new WebAssembly.Module(readFileSync(process.argv[2]));
let failed = 0;

function call(name, expected) {
  const { exports } = new WebAssembly.Instance(module, {});
  exports.listen_to_panics();
  let said = "";
  try {
    exports[name]();
  } catch {
    const bytes = new Uint8Array(exports.memory.buffer, exports.message_start(), exports.message_length());
    said = new TextDecoder().decode(bytes) || "a trap without a message";
  }
  const right = expected === null ? said === "" : said.includes(expected);
  failed += right ? 0 : 1;
  console.log(`${right ? "ok" : "FAILED"}  ${name}${said ? `: ${said.split("\n").join(" ")}` : ""}`);
}

call("primitives_work", null);
call("what_need_not_wait_works", null);
call("runtimes_are_refused", null);
call("contended_timeout", "no clock");
call("sleep", "no clock");
process.exit(failed === 0 ? 0 : 1);
