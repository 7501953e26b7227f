const texts = new WeakMap<Response, string>();

/** Creates a response with a known body: our server writes it in one piece, with its length. */
export function textResponse(
  text: string,
  status: number,
  headers: Readonly<Record<string, string>>,
): Response {
  const response = new Response(text, { status, headers });
  texts.set(response, text);
  return response;
}

/** The text of a response of `textResponse`, without reading its body. */
export const responseText = (response: Response): string | undefined => texts.get(response);
