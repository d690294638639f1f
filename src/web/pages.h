// SPDX-License-Identifier: Apache-2.0
// The page's own files, which are a part of the program, and the chart library, which is not.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "web/http/server.h"

namespace rgpu::web {

class Pages {
public:
    // Reads the chart library; where there is no such file, the page goes without charts.
    explicit Pages(const std::string &chart_library);

    // The file of that path, "/" or "/app.js"; null: there is none.
    const Answer *find(const std::string &path) const;
    bool has_charts() const { return has_charts_; }

private:
    std::map<std::string, Answer> files_;
    bool has_charts_ = false;
};

}  // namespace rgpu::web
