// Types that several modules of the console share.

/** The options of a request to the API. */
type Options = {
  query?: Record<string, any>;
  body?: any;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** How long the response may take to begin, in milliseconds. */
  answerMs?: number;
  /** Whether the request has no bearer token. */
  isOpen?: boolean;
  /** Whether it goes on when the tab is closed. */
  keepalive?: boolean;
};

/** A column of a table. */
type Column = {
  title: string;
  cell: (row: any) => any;
  kind?: string;
  by?: string | ((row: any) => any);
  head?: any;
};

/** A path, the function that loads its view, and its navigation entry. */
type Route = [string, () => Promise<any>, string];
