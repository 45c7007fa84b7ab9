/** The JSON value that a text is, as a whole or as its last fenced block; undefined when it holds none. */
export function jsonIn(text: string): { value: unknown } | undefined {
  const fenced = [...text.matchAll(/^```[\w-]*[ \t]*\n([\s\S]*?)\n```[ \t]*$/gm)].at(-1)?.[1];
  for (const candidate of [text, fenced]) {
    if (candidate === undefined) continue;
    try {
      return { value: JSON.parse(candidate) as unknown };
    } catch {
      // Not this one.
    }
  }
  return undefined;
}
