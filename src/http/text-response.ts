const texts = new WeakMap<Response, string>();

/** A response whose body is there already: our server writes it in one piece, with its length. */
export function textResponse(
  text: string,
  status: number,
  headers: Readonly<Record<string, string>>,
): Response {
  const response = new Response(text, { status, headers });
  texts.set(response, text);
  return response;
}

export const responseText = (response: Response): string | undefined => texts.get(response);
